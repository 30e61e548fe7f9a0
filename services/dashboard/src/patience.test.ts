import { describe, expect, it } from "vitest";
import { patiently, TRIES_MAX, WAIT_S_MAX } from "./patience";

/** Fails with these in turn, then answers; counts how often it was asked and what was waited. */
function asking(...failures: object[]) {
  const waited: number[] = [];
  let asked = 0;
  const ask = (): Promise<string> => {
    const failure = failures[asked++];
    return failure ? Promise.reject(failure) : Promise.resolve("told");
  };
  const wait = (ms: number): Promise<void> => {
    waited.push(ms);
    return Promise.resolve();
  };
  return { said: () => patiently(ask, { wait }), waited, asked: () => asked };
}

const away = { status: 503, retryAfterS: 1 };

describe("a question to a service whose leader is not there yet", () => {
  it("is asked again after as long as the gateway says, and answered", async () => {
    const one = asking(away, { ...away, retryAfterS: 2 });
    expect(await one.said()).toBe("told");
    expect(one.waited).toEqual([1_000, 2_000]);
  });

  it("is not asked for ever", async () => {
    const one = asking(...Array<object>(TRIES_MAX + 1).fill(away));
    await expect(one.said()).rejects.toBe(away);
    expect(one.asked()).toBe(TRIES_MAX);
  });

  it("does not wait longer than a person would", async () => {
    const one = asking({ ...away, retryAfterS: 3_600 });
    await one.said();
    expect(one.waited).toEqual([WAIT_S_MAX * 1_000]);
  });

  it("is asked again where it was above the limits", async () => {
    const one = asking({ status: 429, retryAfterS: 2 });
    expect(await one.said()).toBe("told");
    expect(one.waited).toEqual([2_000]);
  });

  it.each([{ status: 404, retryAfterS: 0 }, { status: 503, retryAfterS: 0 }, { status: 0, retryAfterS: 0 }, {}])(
    "is not asked again where that mends nothing: %j",
    async (refusal) => {
      const one = asking(refusal);
      await expect(one.said()).rejects.toBe(refusal);
      expect(one.asked()).toBe(1);
    },
  );

  it("waits no longer once nobody wants the answer", async () => {
    const ending = new AbortController();
    const gone = new Error("aborted");
    const ask = (): Promise<never> => {
      const failure = ending.signal.aborted ? gone : { ...away, retryAfterS: WAIT_S_MAX };
      ending.abort();
      return Promise.reject(failure);
    };
    await expect(patiently(ask, { signal: ending.signal })).rejects.toBe(gone);
  });
});
