/** What can be seen, filtered, grouped and sorted by in the table of jobs. Pure. */

import type { JobView } from "../../wire";
import { NS_PER_S, PHASES } from "./words";

/** What a column holds: words, a number, a length of time in seconds that grows by itself, or several words. */
export type ColumnSort = "word" | "number" | "age" | "words";

/** value: what a filter and a menu see. key: what the order goes by, so that it stands still while only time passes. */
export interface Column {
  readonly name: ColumnName;
  readonly title: string;
  readonly about: string;
  readonly sort: ColumnSort;
  readonly grouped: boolean;
  value(job: JobView, nowNs: number): string | number | readonly string[];
  key(job: JobView): string | number;
}

export type ColumnName =
  | "phase"
  | "name"
  | "id"
  | "team"
  | "queue"
  | "user"
  | "kind"
  | "priority"
  | "gpus"
  | "node"
  | "cluster"
  | "reason"
  | "time"
  | "submitted"
  | "attempt"
  | "preempted"
  | "held";

const PHASE_ORDER = new Map<string, number>(PHASES.map((phase, index) => [phase, index]));

function word(name: ColumnName, title: string, about: string, of: (job: JobView) => string, grouped = true): Column {
  return { name, title, about, sort: "word", grouped, value: of, key: (job) => of(job).toLowerCase() };
}

function number(name: ColumnName, title: string, about: string, of: (job: JobView) => number, grouped = false): Column {
  return { name, title, about, sort: "number", grouped, value: of, key: of };
}

/** since: from when it is counted, ns; 0: it has not begun. until: when it stopped growing, 0 while it does not. */
function age(
  name: ColumnName,
  title: string,
  about: string,
  since: (job: JobView) => number,
  until: (job: JobView) => number,
): Column {
  const value = (job: JobView, nowNs: number) => Math.max(0, (until(job) || nowNs) - (since(job) || nowNs)) / NS_PER_S;
  // What still grows began so long ago; what has ended comes after all of it, by its length.
  const key = (job: JobView) => {
    const end = until(job);
    return end ? (end - since(job)) / NS_PER_S - 1e12 : -since(job) / NS_PER_S;
  };
  return { name, title, about, sort: "age", grouped: false, value, key };
}

export const COLUMNS: readonly Column[] = [
  {
    ...word("phase", "State", "Phase of the job", (job) => job.phase),
    key: (job) => PHASE_ORDER.get(job.phase) ?? PHASES.length,
  },
  word("name", "Job", "Its name", (job) => job.name),
  word("id", "Id", "Its id", (job) => job.id, false),
  word("team", "Team", "Team of the job", (job) => job.team),
  word("queue", "Queue", "Queue in which the job waits or waited", (job) => job.queue),
  word("user", "User", "User who submitted the job", (job) => job.principal),
  number("gpus", "GPUs", "Number of requested GPUs", (job) => job.gpu_milli / 1000),
  {
    ...word("node", "Nodes or reason", "Nodes of the job, or the reason why it waits", (job) => job.nodes[0] ?? ""),
    sort: "words",
    value: (job) => job.nodes,
    key: (job) => (job.nodes[0] ?? job.reason).toLowerCase(),
  },
  age(
    "time",
    "Time",
    "Run time, or time since submission if the job has not run",
    (job) => job.running_at || job.submitted_at,
    (job) => job.ended_at,
  ),
  number("priority", "Priority", "Jobs with higher priority are first in their queue", (job) => job.priority, true),
  age(
    "submitted",
    "Submitted",
    "Time since submission",
    (job) => job.submitted_at,
    () => 0,
  ),
  word("cluster", "Cluster", "Cluster to which the job was routed", (job) => job.cluster),
  word("reason", "Reason", "Reason of the current phase", (job) => job.reason),
  word("kind", "Kind", "Type of work", (job) => job.kind),
  number("attempt", "Try", "Number of the current attempt", (job) => job.attempt),
  number("preempted", "Preempted", "Number of preemptions", (job) => job.preemptions),
  word("held", "Held", "Whether the job is held", (job) => (job.held ? "held" : "")),
];

const BY_NAME = new Map<string, Column>(COLUMNS.map((column) => [column.name, column]));

/** The column of that name, or undefined. */
export function columnOf(name: string): Column | undefined {
  return BY_NAME.get(name);
}

/** Under what a job stands when grouped by this column. */
export function groupOf(column: Column, job: JobView): string {
  const value = column.value(job, 0);
  if (typeof value === "string") return value;
  return typeof value === "number" ? String(value) : (value[0] ?? "");
}
