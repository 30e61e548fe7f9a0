/** Which facts are shown: pure. */

import type { FactRow } from "../../wire";

export interface Filter {
  /** Words that must all occur in a fact's kind, subject, name, writer, cluster or, where it is known, its job's name. */
  text: string;
  kind: string;
  writer: string;
}

/** Whether a filter lets a fact through. nameOf: a job's name by its id, "" if it is not known. */
export function matcher(filter: Filter, nameOf: (jobId: string) => string): (fact: FactRow) => boolean {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  return (fact) => {
    if ((filter.kind && fact.kind !== filter.kind) || (filter.writer && fact.writer !== filter.writer)) {
      return false;
    }
    if (words.length === 0) {
      return true;
    }
    const job = fact.kind === "job" ? nameOf(fact.subject_id) : "";
    const said = `${fact.kind} ${fact.subject_id} ${fact.name} ${fact.writer} ${fact.cluster} ${job}`.toLowerCase();
    return words.every((word) => said.includes(word));
  };
}

/** Lists in which the newest stands first, without those that were there before. */
export function newestFirst(past: readonly FactRow[], live: readonly FactRow[]): FactRow[] {
  const known = new Set(live.map((fact) => fact.id));
  const all = past.filter((fact) => !known.has(fact.id)).concat(live);
  return all.sort((one, other) => other.time - one.time || other.seq - one.seq);
}

const BAD = new Set([
  "failed",
  "lost",
  "timed-out",
  "suspect",
  "attach-failed",
  "detach-failed",
  "provision-failed",
  "voided",
]);
const WARN = new Set([
  "preempted",
  "preempt-requested",
  "stop-requested",
  "unschedulable",
  "withheld",
  "cancelled",
  "removal-blocked",
  "nothing-chosen",
]);
const OK = new Set(["running", "succeeded", "released", "joined", "attached", "booked"]);

/** How a fact's name is toned: most are plain. */
export function toneOf(name: string): "bad" | "warn" | "ok" | "neutral" {
  if (BAD.has(name) || name.endsWith("-refused") || name.endsWith("-failed")) {
    return "bad";
  }
  return WARN.has(name) ? "warn" : OK.has(name) ? "ok" : "neutral";
}

const LIST_OF_PLAIN = /\[\s+([^[\]{}]{0,400}?)\s+\]/g;

/** A body as people read it, lists of numbers and words in one line; as it is if it is no JSON. */
export function pretty(body: string): string {
  try {
    const told = JSON.stringify(JSON.parse(body), null, 2);
    return told.replace(LIST_OF_PLAIN, (_, items: string) => `[${items.replace(/\s*\n\s*/g, " ")}]`);
  } catch {
    return body;
  }
}
