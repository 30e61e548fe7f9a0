import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../../api";
import type { WhyAnswer } from "../../wire";

const FRESH_MS = 15_000; // an answer is not asked for again so soon
const AT_ONCE_MAX = 2; // the scheduler answers why one by one: a page must not crowd others out
const KEPT_MAX = 500;

/** The scheduler's word on a few jobs, asked for one after another. null: it could not be told. */
export function useWhys(ids: readonly string[]): ReadonlyMap<string, WhyAnswer | null> {
  const answers = useRef(new Map<string, { why: WhyAnswer | null; atMs: number }>());
  const [, draw] = useState(0);
  const key = ids.join(" ");
  useEffect(() => {
    const ending = new AbortController();
    const isDue = (id: string) => performance.now() - (answers.current.get(id)?.atMs ?? -FRESH_MS) >= FRESH_MS;
    const work = async (waiting: string[]) => {
      for (let id = waiting.shift(); id !== undefined && !ending.signal.aborted; id = waiting.shift()) {
        if (!isDue(id)) continue;
        const why = await ask(id, ending.signal);
        if (ending.signal.aborted) return;
        if (answers.current.size >= KEPT_MAX) answers.current.clear();
        answers.current.set(id, { why, atMs: performance.now() });
        draw((old) => old + 1);
      }
    };
    const round = () => {
      if (document.hidden) return;
      const waiting = ids.filter(isDue);
      for (let one = 0; one < AT_ONCE_MAX; one += 1) void work(waiting);
    };
    round();
    const timer = setInterval(round, FRESH_MS);
    return () => {
      ending.abort();
      clearInterval(timer);
    };
  }, [key]);
  return new Map(
    ids.flatMap((id) => {
      const known = answers.current.get(id);
      return known ? [[id, known.why] as const] : [];
    }),
  );
}

async function ask(id: string, signal: AbortSignal): Promise<WhyAnswer | null> {
  try {
    return await api.get<WhyAnswer>(`/v1/jobs/${id}/why`, { signal });
  } catch {
    return null; // shown as not known; it is asked again
  }
}
