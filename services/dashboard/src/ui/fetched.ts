import { useEffect, useRef, useState } from "preact/hooks";
import { type ApiProblem, api, asProblem } from "../api";
import { patiently } from "../patience";

export interface Fetched<T> {
  /** The newest answer; it stays while the next is on its way, and when that fails. */
  value: T | undefined;
  problem: ApiProblem | undefined;
  /** Ask again now. */
  again: () => void;
}

/**
 * An answer of the API, asked for when the path changes and every `everyMs` while the page can be seen.
 *
 * path: "" asks nothing. Answers that come after the path changed are dropped. Where nobody leads yet it waits a while
 * before it says so.
 */
export function useFetched<T>(path: string, { everyMs = 0 }: { everyMs?: number } = {}): Fetched<T> {
  const [state, setState] = useState<{ path: string; value?: T; problem?: ApiProblem }>({ path });
  const ask = useRef<() => void>(() => undefined);
  useEffect(() => {
    const ending = new AbortController();
    let asking = false;
    const now = async (): Promise<void> => {
      if (!path || asking) {
        return;
      }
      asking = true;
      try {
        const { signal } = ending;
        const value = await patiently(() => api.get<T>(path, { signal }), { signal });
        if (!ending.signal.aborted) {
          setState({ path, value });
        }
      } catch (error) {
        if (!ending.signal.aborted) {
          setState((old) => ({ ...(old.path === path ? old : { path }), problem: asProblem(error) }));
        }
      } finally {
        asking = false;
      }
    };
    ask.current = () => void now();
    void now();
    const timer = everyMs > 0 ? setInterval(() => !document.hidden && void now(), everyMs) : undefined;
    return () => {
      ending.abort();
      clearInterval(timer);
    };
  }, [path, everyMs]);
  const fits = state.path === path;
  return {
    value: fits ? state.value : undefined,
    problem: fits ? state.problem : undefined,
    again: () => ask.current(),
  };
}
