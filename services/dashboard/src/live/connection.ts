/**
 * Keeps the store live: credential, WebSocket, subscriptions, snapshot, and again whenever one of them fails.
 *
 * A new credential gets a new connection beside the old one, which ends when the new one's subscriptions stand; what
 * both deliver, `Join` takes once. So nothing is missed when a credential is renewed.
 */

import { effect } from "@preact/signals";
import { unzlibSync } from "fflate"; // not the browser's own: that one answers later, and order would have to be kept
import { ApiProblem, api, asProblem } from "../api";
import { diagnostics } from "../diagnostics";
import { token } from "../session";
import type { LiveCredential, LiveSlice, LiveTelemetry, Me, Snapshot } from "../wire";
import { PUBLIC_AUDIENCE } from "../wire";
import { type Decode, Extras } from "./extra";
import { Gate } from "./gate";
import { Join, STALE_AFTER_MS } from "./join";
import { renewAfterMs, retryAfterMs } from "./lifetime";
import type { NatsConnection } from "./nats";
import { store } from "./store";

const TICK_MS = 500;
/** Who the token belongs to is asked again so often while nobody answered. Longer than one request may take. */
const ME_EVERY_MS = 20_000;
const SNAPSHOT_TIMEOUT_MS = 30_000;
/** The old connection gets so long to deliver what it was sent. */
const HANDOVER_MS = 2_000;
const EVERY_TEAM = "*";

class Live {
  #join = new Join();
  #connection: NatsConnection | null = null;
  #ending = new AbortController();
  readonly #extras = new Extras((bytes, work) => diagnostics.message(bytes, work));
  #renewAtMs = Number.POSITIVE_INFINITY;
  #connecting = false;
  #failures = 0;
  #retryAtMs = 0;
  #why = "";
  #joinBefore = 0;
  #meAskedAtMs = 0;

  /** Follow the session: live while there is a token, and nothing of one token's is kept for the next. */
  start(): void {
    effect(() => {
      const asked = token.value;
      this.#end();
      if (asked) {
        this.#begin();
      }
    });
    setInterval(() => this.#tick(), TICK_MS);
    addEventListener("online", () => this.#retryNow());
    document.addEventListener("visibilitychange", () => this.#retryNow());
  }

  /** Try at once what would be tried later. */
  #retryNow(): void {
    if (!document.hidden && token.peek()) {
      this.#retryAtMs = 0;
      this.#tick();
    }
  }

  /** Listen to a subject beside the slices, also after reconnects. Returns how to end that. */
  listen(subject: string, decode: Decode): () => void {
    return this.#extras.listen(subject, decode);
  }

  #begin(): void {
    this.#ending = new AbortController();
    this.#join = new Join();
    this.#joinBefore = 0;
    this.#failures = 0;
    this.#retryAtMs = 0;
    this.#why = "";
    void this.#learnWhoIAm(this.#ending.signal);
    this.#tick();
  }

  #end(): void {
    this.#ending.abort();
    void this.#connection?.close();
    this.#connection = null;
    this.#extras.use(null);
    this.#connecting = false;
    store.connection.value = { kind: "out" };
    store.clear();
  }

  async #learnWhoIAm(ending: AbortSignal): Promise<void> {
    this.#meAskedAtMs = performance.now();
    try {
      store.me.value = await api.get<Me>("/v1/me", { signal: ending });
    } catch (error) {
      if (!ending.aborted) {
        this.#why = asProblem(error).message; // asked again with the next connection, or after a while
      }
    }
  }

  #tick(): void {
    if (!token.peek()) {
      return;
    }
    const nowMs = performance.now();
    const renewing = this.#connection !== null && nowMs >= this.#renewAtMs;
    if (!this.#connecting && (renewing || this.#connection === null) && nowMs >= this.#retryAtMs) {
      void this.#connect(this.#ending.signal);
    }
    if (this.#connection && nowMs >= this.#join.snapshotDueAtMs) {
      void this.#takeSnapshot(this.#ending.signal);
    }
    if (store.me.peek() === null && nowMs - this.#meAskedAtMs > ME_EVERY_MS) {
      void this.#learnWhoIAm(this.#ending.signal);
    }
    this.#tellState(nowMs);
  }

  async #connect(ending: AbortSignal): Promise<void> {
    this.#connecting = true;
    try {
      const [credential, nats] = await Promise.all([
        api.post<LiveCredential>("/v1/live/credential", undefined, { signal: ending }),
        import("./nats"),
      ]);
      const connection = await nats.connect(credential);
      if (ending.aborted) {
        await connection.close();
        return;
      }
      const gate = new Gate();
      this.#subscribeAll(connection, credential, gate);
      await connection.flush();
      await this.#delivered();
      gate.open();
      this.#stands(connection, credential, ending);
    } catch (error) {
      if (!ending.aborted) {
        this.#failed(error);
      }
    } finally {
      if (!ending.aborted) {
        this.#connecting = false;
        this.#tick();
      }
    }
  }

  /** What was sent to the connection that is to be replaced has come, or will not. */
  async #delivered(): Promise<void> {
    const before = this.#connection;
    if (before) {
      const tooLong = new Promise((resolve) => setTimeout(resolve, HANDOVER_MS));
      await Promise.race([before.flush(), tooLong]).catch(() => undefined); // it ended: what it had not sent is lost
    }
  }

  #stands(connection: NatsConnection, credential: LiveCredential, ending: AbortSignal): void {
    const before = this.#connection;
    const nowMs = performance.now();
    if (this.#joinBefore > 0 && before === null) {
      diagnostics.counts.reconnects += 1;
    }
    this.#joinBefore += 1;
    this.#connection = connection;
    this.#extras.use(connection);
    this.#renewAtMs = nowMs + renewAfterMs(credential.jwt);
    this.#failures = 0;
    this.#why = "";
    this.#join.connected(nowMs);
    void connection.closed().then((error) => {
      if (!ending.aborted && this.#connection === connection) {
        this.#connection = null;
        this.#extras.use(null);
        this.#why = error instanceof Error ? `The connection was lost: ${error.message}` : "The connection was lost";
        this.#retryAtMs = performance.now() + retryAfterMs(0, Math.random());
        this.#tick();
      }
    });
    void before?.close();
  }

  #failed(error: unknown): void {
    const problem = asProblem(error);
    this.#why =
      error instanceof ApiProblem ? problem.message : "The gateway answers, but its WebSocket cannot be reached";
    const waitMs = retryAfterMs(this.#failures, Math.random());
    this.#failures += 1;
    this.#retryAtMs = performance.now() + Math.max(waitMs, problem.retryAfterS * 1000);
  }

  #subscribeAll(connection: NatsConnection, credential: LiveCredential, gate: Gate): void {
    const teams = credential.audiences.filter((name) => name !== PUBLIC_AUDIENCE);
    const audiences = teams.includes(EVERY_TEAM) ? [EVERY_TEAM] : [PUBLIC_AUDIENCE, ...teams];
    for (const cluster of credential.clusters) {
      for (const audience of audiences) {
        this.#subscribe(
          connection,
          `view.${cluster}.${audience}.packed`,
          (body) => this.#sliceCame(unzlibSync(body)),
          gate,
        );
      }
      this.#subscribe(
        connection,
        `view.${cluster}.${PUBLIC_AUDIENCE}.telemetry`,
        (body) => this.#readingsCame(body),
        gate,
      );
    }
  }

  #subscribe(connection: NatsConnection, subject: string, came: Decode, gate: Gate): void {
    connection.subscribe(subject, {
      callback: (error, message) => {
        if (error) {
          this.#why = `${subject}: ${error.message}`; // refused: the connection ends, and is made anew
          void connection.close();
          return;
        }
        gate.pass(() => diagnostics.message(message.data.length, () => came(message.data)));
      },
    });
  }

  #sliceCame(body: Uint8Array): void {
    const slice = json<LiveSlice>(body);
    const gaps = this.#join.gaps;
    for (const next of this.#join.slice(slice, performance.now())) {
      store.apply(next);
    }
    store.hear(slice); // after its rows: whoever is told of a fact of a job may look for the job
    if (this.#join.gaps !== gaps) {
      diagnostics.counts.gaps = this.#join.gaps;
      diagnostics.counts.lastGap = this.#join.lastGap;
      this.#tick();
    }
  }

  #readingsCame(body: Uint8Array): void {
    store.readings(json<LiveTelemetry>(body));
  }

  async #takeSnapshot(ending: AbortSignal): Promise<void> {
    const began = performance.now();
    this.#join.snapshotAsked();
    try {
      const snapshot = await api.get<Snapshot>("/v1/snapshot", { signal: ending, timeoutMs: SNAPSHOT_TIMEOUT_MS });
      if (ending.aborted) {
        return;
      }
      diagnostics.work(() => {
        store.reset(snapshot);
        for (const slice of this.#join.snapshot(snapshot, performance.now())) {
          store.apply(slice);
        }
      });
      diagnostics.snapshotTook(performance.now() - began);
      this.#why = "";
    } catch (error) {
      if (!ending.aborted) {
        const problem = asProblem(error);
        this.#why = problem.message;
        this.#join.snapshotFailed(performance.now(), {
          retryAfterMs: problem.retryAfterS * 1000,
          jitter: Math.random(),
        });
      }
    }
    this.#tellState(performance.now());
  }

  #tellState(nowMs: number): void {
    const silentMs = this.#join.silentMs(nowMs);
    if (this.#connection === null && (this.#why || this.#joinBefore > 0)) {
      store.connection.value = {
        kind: "offline",
        why: this.#why || "The connection was lost",
        retryAtMs: this.#retryAtMs,
      };
    } else if (this.#connection === null || !this.#join.joined) {
      if (store.connection.peek().kind !== "joining" || this.#why) {
        store.connection.value = { kind: "joining", why: this.#why };
      }
    } else if (silentMs > STALE_AFTER_MS) {
      store.connection.value = { kind: "stale", sinceMs: nowMs - silentMs };
    } else if (store.connection.peek().kind !== "live") {
      store.connection.value = { kind: "live" };
    }
  }
}

const decoder = new TextDecoder();

function json<T>(body: Uint8Array): T {
  return JSON.parse(decoder.decode(body)) as T;
}

export const live = new Live();
