/** Asking again where the gateway says that it may soon be answered: a service whose leader is not there yet, say. */

/** How often a question is asked in all. */
export const TRIES_MAX = 4;
/** The longest that is waited before a question is asked again, whatever the gateway says. */
export const WAIT_S_MAX = 5;

type Wait = (ms: number, signal?: AbortSignal) => Promise<void>;

/** The answer of `ask`, or what it throws at last; a 503 or 429 that says `Retry-After` is waited for. */
export async function patiently<T>(
  ask: () => Promise<T>,
  { signal, wait = pause }: { signal?: AbortSignal; wait?: Wait } = {},
): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      const afterS = comesBackAfterS(error);
      if (afterS === 0 || tries >= TRIES_MAX) {
        throw error;
      }
      await wait(Math.min(afterS, WAIT_S_MAX) * 1000, signal);
    }
  }
}

/** Seconds; 0 for what asking again does not mend. */
function comesBackAfterS(error: unknown): number {
  const { status, retryAfterS } = error as { status?: unknown; retryAfterS?: unknown };
  return (status === 503 || status === 429) && typeof retryAfterS === "number" ? retryAfterS : 0;
}

/** Ends early where the signal says so: who asks next is told by the signal. */
function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function done(): void {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    }
    signal?.addEventListener("abort", done);
    if (signal?.aborted) {
      done();
    }
  });
}
