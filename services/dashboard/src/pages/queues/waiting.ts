/** Who waits in which queue and why, from the rows of jobs. Pure. */

import type { JobView } from "../../wire";

/** One reason of a queue's waiting jobs. */
export interface Cause {
  readonly reason: string;
  readonly jobs: number;
  readonly gpuMilli: number;
}

/** jobs: those longest in line first, at most as many as were asked for; count: of all. */
export interface Waiting {
  readonly count: number;
  readonly gpuMilli: number;
  readonly causes: readonly Cause[];
  readonly jobs: readonly JobView[];
}

/** names: the queue and those below it. most: how many jobs are wanted in full. */
export function waitingIn(names: Pick<ReadonlySet<string>, "has">, jobs: Iterable<JobView>, most: number): Waiting {
  const causes = new Map<string, { reason: string; jobs: number; gpuMilli: number }>();
  const first: JobView[] = []; // kept in order and short: among many thousands a sort of all would be felt
  let [count, gpuMilli] = [0, 0];
  for (const job of jobs) {
    if (!waits(job) || !names.has(job.queue)) continue;
    count += 1;
    enter(first, job, most);
    gpuMilli += job.gpu_milli;
    const reason = job.held ? "held" : job.reason;
    const cause = causes.get(reason) ?? { reason, jobs: 0, gpuMilli: 0 };
    causes.set(reason, { reason, jobs: cause.jobs + 1, gpuMilli: cause.gpuMilli + job.gpu_milli });
  }
  const sorted = [...causes.values()].sort((one, two) => two.jobs - one.jobs || one.reason.localeCompare(two.reason));
  return { count, gpuMilli, causes: sorted, jobs: first };
}

/** Put a job among the first so many, if it is one of them. */
function enter(first: JobView[], job: JobView, most: number): void {
  const last = first[first.length - 1];
  if (first.length >= most && (!last || !comesBefore(job, last))) return;
  const place = first.findIndex((one) => comesBefore(job, one));
  first.splice(place < 0 ? first.length : place, 0, job);
  first.length = Math.min(first.length, most);
}

function comesBefore(one: JobView, two: JobView): boolean {
  return one.submitted_at === two.submitted_at ? one.id < two.id : one.submitted_at < two.submitted_at;
}

/** Whether the job is in line. */
export function waits(job: JobView): boolean {
  return job.phase === "queued" || job.phase === "submitted";
}
