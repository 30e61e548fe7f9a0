/** The gateway's HTTP API: JSON in and out, refusals as exceptions that people can read. */

import { logOut, token } from "./session";
import type { Problem } from "./wire";

const TIMEOUT_MS = 15_000;

/** A refusal (RFC 9457), or an answer that did not come: then status is 0. */
export class ApiProblem extends Error {
  readonly title: string;
  readonly detail: string;
  readonly field: string;
  readonly cure: string;
  readonly status: number;
  /** Seconds after which asking again may help, 0 if the gateway did not say. */
  readonly retryAfterS: number;

  constructor(problem: Partial<Problem> & { title: string; status: number }, retryAfterS = 0) {
    super(problem.detail ? `${problem.title}: ${problem.detail}` : problem.title);
    this.title = problem.title;
    this.detail = problem.detail ?? "";
    this.field = problem.field ?? "";
    this.cure = problem.cure ?? "";
    this.status = problem.status;
    this.retryAfterS = retryAfterS;
  }
}

/** Whatever was thrown, as a problem to show. */
export function asProblem(error: unknown): ApiProblem {
  return error instanceof ApiProblem ? error : new ApiProblem({ title: String(error), status: 0 });
}

interface Options {
  signal?: AbortSignal;
  /** Ask as this token instead of the session's: for trying one out. */
  as?: string;
  timeoutMs?: number;
}

async function ask<T>(method: string, path: string, body: unknown, options: Options): Promise<T> {
  const headers: Record<string, string> = { Accept: "application/json" };
  const bearer = options.as ?? token.peek();
  if (bearer) {
    headers["Authorization"] = `Bearer ${bearer}`;
  }
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
  }
  const limit = AbortSignal.timeout(options.timeoutMs ?? TIMEOUT_MS);
  let answer: Response;
  try {
    answer = await fetch(path, {
      method,
      headers,
      body: body === undefined ? null : JSON.stringify(body),
      signal: options.signal ? AbortSignal.any([options.signal, limit]) : limit,
      credentials: "omit",
    });
  } catch (error) {
    if (options.signal?.aborted) {
      throw error;
    }
    throw notReached(limit.aborted);
  }
  if (!answer.ok) {
    const problem = await refusal(answer);
    if (problem.status === 401 && options.as === undefined && bearer === token.peek()) {
      logOut("The token is no longer valid: it was revoked, or it belongs to another Muster installation.");
    }
    throw problem;
  }
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

function notReached(timedOut: boolean): ApiProblem {
  return new ApiProblem({
    title: timedOut ? "The gateway did not answer in time" : "The gateway cannot be reached",
    status: 0,
    cure: "See `muster status`; this page retries automatically.",
  });
}

async function refusal(answer: Response): Promise<ApiProblem> {
  const retryAfterS = Number(answer.headers.get("Retry-After")) || 0;
  const plain = { title: answer.statusText || `HTTP ${answer.status}`, status: answer.status };
  try {
    return new ApiProblem({ ...plain, ...((await answer.json()) as Partial<Problem>) }, retryAfterS);
  } catch {
    return new ApiProblem(plain, retryAfterS); // a proxy's page, say: its status is all that it tells
  }
}

/** Every call throws `ApiProblem` unless it was answered with success, or an AbortError if `signal` said so. */
export const api = {
  get: <T>(path: string, options: Options = {}): Promise<T> => ask<T>("GET", path, undefined, options),
  post: <T>(path: string, body?: unknown, options: Options = {}): Promise<T> => ask<T>("POST", path, body, options),
  delete: <T>(path: string, options: Options = {}): Promise<T> => ask<T>("DELETE", path, undefined, options),
};
