/** Jobs that have ended, newest first: the four lists that the API has, one for each terminal phase, drawn into one. Pure. */

import type { JobView } from "../../wire";

export const ENDED_PHASES = ["succeeded", "failed", "cancelled", "timed-out"] as const;
export type EndedPhase = (typeof ENDED_PHASES)[number];

/** A page as `GET /v1/jobs` gives it. next_cursor: "" at the end. */
export interface JobsPage {
  readonly jobs: readonly JobView[];
  readonly next_cursor: string;
}

/** One phase's list as far as it was read. cursor: where to go on, undefined before the first page, "" at the end. */
interface List {
  readonly cursor: string | undefined;
  readonly waiting: readonly JobView[];
}

/** jobs: in order, complete down to the last of them. */
export interface EndedJobs {
  readonly jobs: readonly JobView[];
  readonly lists: ReadonlyMap<EndedPhase, List>;
}

/** Nothing read yet, of these phases. */
export function noneEnded(phases: readonly EndedPhase[] = ENDED_PHASES): EndedJobs {
  return { jobs: [], lists: new Map(phases.map((phase) => [phase, { cursor: undefined, waiting: [] }])) };
}

/** Pages that are needed before more can be shown; none at the end. */
export function wanted(ended: EndedJobs): readonly { phase: EndedPhase; cursor: string }[] {
  const found: { phase: EndedPhase; cursor: string }[] = [];
  for (const [phase, list] of ended.lists) {
    if (!list.waiting.length && list.cursor !== "") found.push({ phase, cursor: list.cursor ?? "" });
  }
  return found;
}

/** Whether every list was read to its end. */
export function isComplete(ended: EndedJobs): boolean {
  return [...ended.lists.values()].every((list) => list.cursor === "" && !list.waiting.length);
}

/** With pages that came; jobs are shown down to where one list's next page is not known. */
export function withPages(ended: EndedJobs, pages: ReadonlyMap<EndedPhase, JobsPage>): EndedJobs {
  const lists = new Map(ended.lists);
  for (const [phase, page] of pages) {
    const list = lists.get(phase);
    if (list) lists.set(phase, { cursor: page.next_cursor, waiting: [...list.waiting, ...page.jobs] });
  }
  const jobs = [...ended.jobs];
  const shown = new Set(jobs.map((job) => job.id));
  const places = new Map<EndedPhase, number>([...lists.keys()].map((phase) => [phase, 0]));
  while (![...lists].some(([phase, list]) => isRunOut(list, places.get(phase) ?? 0))) {
    const next = newest(lists, places);
    if (!next) break;
    places.set(next.phase, (places.get(next.phase) ?? 0) + 1);
    if (!shown.has(next.job.id)) jobs.push(next.job);
    shown.add(next.job.id);
  }
  for (const [phase, list] of lists) lists.set(phase, { ...list, waiting: list.waiting.slice(places.get(phase) ?? 0) });
  return { jobs, lists };
}

/** Its next job is not known, and may be newer than all others'. */
function isRunOut(list: List, place: number): boolean {
  return place >= list.waiting.length && list.cursor !== "";
}

function newest(
  lists: ReadonlyMap<EndedPhase, List>,
  places: ReadonlyMap<EndedPhase, number>,
): { phase: EndedPhase; job: JobView } | undefined {
  let best: { phase: EndedPhase; job: JobView } | undefined;
  for (const [phase, list] of lists) {
    const job = list.waiting[places.get(phase) ?? 0];
    if (job && (!best || job.submitted_at > best.job.submitted_at)) best = { phase, job };
  }
  return best;
}
