/**
 * The tree of one job's facts: what led to what, who said it, how long it took. Pure; the same tree as `muster trace`.
 *
 * Submission is the root. A fact hangs under the newest of its causes; its other causes stay as links. A fact that names
 * no cause among the job's facts hangs under the newest earlier fact of the job, marked as not caused by it. A fact that
 * JetStream sourced into a second stream keeps its id and is one fact.
 */

import type { FactView, JobView } from "../../wire";
import { FED_STREAM } from "../../wire";
import { NS_PER_S, TERMINAL } from "../jobs/words";

/** One fact in the tree. parent: id of the fact it hangs under, "" for the root; caused: that is among its causes. */
export interface Span {
  readonly id: string;
  readonly parent: string;
  readonly caused: boolean;
  readonly links: readonly string[];
  readonly streams: readonly string[];
  readonly afterParentS: number;
  readonly sinceStartS: number;
  readonly depth: number;
  readonly fact: FactView;
}

/** spans: depth first, as drawn. totalS: from submission to the newest terminal fact, or to the newest while it lives. */
export interface JobTrace {
  readonly traceId: string;
  readonly services: readonly string[];
  readonly finished: boolean;
  readonly startNs: number;
  readonly totalS: number;
  readonly spans: readonly Span[];
}

interface Stored {
  readonly fact: FactView;
  readonly streams: string[];
}

/** The trace of one job from its facts, in any order. No facts give an empty trace. */
export function buildTrace(facts: Iterable<FactView>): JobTrace {
  const stored = inOrder(facts);
  const first = stored[0];
  const last = stored[stored.length - 1];
  if (!first || !last) return { traceId: "", services: [], finished: false, startNs: 0, totalS: 0, spans: [] };
  const ends = stored.filter((item) => isEnd(item.fact)).map((item) => item.fact.time);
  const end = ends.length ? Math.max(...ends) : last.fact.time;
  return {
    traceId: stored.map((item) => traceIdOf(item.fact.trace)).find(Boolean) ?? "",
    services: [...new Set(stored.map((item) => item.fact.writer))],
    finished: ends.length > 0,
    startNs: first.fact.time,
    totalS: (end - first.fact.time) / NS_PER_S,
    spans: drawn(stored, parentsOf(stored)),
  };
}

/** Whether this is the job's own last word; an attachment made for it may fail, too. */
export function isEnd(fact: FactView): boolean {
  return fact.kind === "job" && TERMINAL.has(fact.name);
}

/** Second field of a W3C traceparent; "" of what is none. */
export function traceIdOf(traceparent: string): string {
  const fields = traceparent.split("-");
  return fields.length === 4 ? (fields[1] ?? "") : "";
}

/**
 * Whether a fact is the job's, or of what was made for it. Any cluster's log can tell of any job: only the federation's
 * and that of the job's own cluster count.
 */
export function isOfJob(fact: FactView, { id, trace, cluster }: Pick<JobView, "id" | "trace" | "cluster">): boolean {
  if (fact.stream !== FED_STREAM && fact.cluster !== cluster) {
    return false;
  }
  const traceId = traceIdOf(trace);
  return fact.subject_id === id || (traceId !== "" && traceIdOf(fact.trace) === traceId && fact.kind !== "queue");
}

/** Each fact once, by time; within one stream the sequence decides, since it is the order there. */
function inOrder(facts: Iterable<FactView>): Stored[] {
  const byId = new Map<string, Stored>();
  const sorted = [...facts].sort((one, two) => one.time - two.time || one.seq - two.seq);
  for (const fact of sorted) {
    const known = byId.get(fact.id);
    if (!known) byId.set(fact.id, { fact, streams: [fact.stream] });
    else if (!known.streams.includes(fact.stream)) known.streams.push(fact.stream);
  }
  return [...byId.values()];
}

interface Parent {
  readonly id: string;
  readonly caused: boolean;
}

/** For each fact but the root: what it hangs under and whether that caused it. Only earlier facts can. */
function parentsOf(stored: readonly Stored[]): Map<string, Parent> {
  const at = new Map(stored.map((item, index) => [item.fact.id, index]));
  const parents = new Map<string, Parent>();
  stored.forEach((item, index) => {
    if (index === 0) return;
    let newest = -1;
    for (const cause of item.fact.causes) {
      const place = at.get(cause) ?? index;
      if (place < index) newest = Math.max(newest, place);
    }
    const parent = stored[newest >= 0 ? newest : index - 1];
    if (parent) parents.set(item.fact.id, { id: parent.fact.id, caused: newest >= 0 });
  });
  return parents;
}

/** Depth first with a stack of its own: a job that ran a thousand times has a tree a thousand deep. */
function drawn(stored: readonly Stored[], parents: ReadonlyMap<string, Parent>): Span[] {
  const root = stored[0];
  if (!root) return [];
  const byId = new Map(stored.map((item) => [item.fact.id, item]));
  const children = new Map<string, Stored[]>();
  for (const item of stored.slice(1)) {
    const parent = parents.get(item.fact.id)?.id ?? "";
    const siblings = children.get(parent);
    if (siblings) siblings.push(item);
    else children.set(parent, [item]);
  }
  const spans: Span[] = [];
  const waiting: [Stored, number][] = [[root, 0]];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const [item, depth] = next;
    const { fact } = item;
    const parent = parents.get(fact.id);
    const before = parent ? (byId.get(parent.id)?.fact.time ?? fact.time) : fact.time;
    spans.push({
      id: fact.id,
      parent: parent?.id ?? "",
      caused: parent?.caused ?? false,
      links: fact.causes.filter((cause) => cause !== parent?.id),
      streams: item.streams,
      afterParentS: (fact.time - before) / NS_PER_S,
      sinceStartS: (fact.time - root.fact.time) / NS_PER_S,
      depth,
      fact,
    });
    const below = children.get(fact.id) ?? [];
    for (let index = below.length - 1; index >= 0; index -= 1) waiting.push([below[index] as Stored, depth + 1]);
  }
  return spans;
}

const ATTACHMENT = "attachment";
const ALIKE_MAX = 2; // devices that were attached for the same reason are shown one by one up to so many

/** Spans that are drawn. alike: by the first span of a device, how many others went the same way. */
export interface Shown {
  readonly spans: readonly Span[];
  readonly alike: ReadonlyMap<string, number>;
}

/**
 * Leave out devices that hang under the same fact as another one, if nothing but their own facts hangs below them. The
 * one whose last fact came last stays, since the job waited for that one.
 */
export function withoutRepeats(spans: readonly Span[]): Shown {
  const first = new Map<string, Span>();
  const lastAt = new Map<string, number>();
  const alone = new Map<string, boolean>();
  const above = new Map(spans.map((span) => [span.id, span]));
  for (const span of spans) {
    const owner = deviceOf(span);
    const parent = deviceOf(above.get(span.parent));
    if (parent && parent !== owner) alone.set(parent, false); // something else follows from it
    if (owner && parent !== owner) {
      alone.set(owner, !first.has(owner));
      if (!first.has(owner)) first.set(owner, span);
    }
    if (owner) lastAt.set(owner, Math.max(span.fact.time, lastAt.get(owner) ?? 0));
  }
  const groups = new Map<string, string[]>();
  for (const [owner, span] of first) {
    const key = `${span.parent} ${span.fact.name}`;
    groups.set(key, [...(groups.get(key) ?? []), owner]);
  }
  const leftOut = new Set<string>();
  const alike = new Map<string, number>();
  for (const owners of groups.values()) {
    const slowest = owners.reduce((one, two) => (later(lastAt, one, two) ? one : two));
    const others = owners.filter((owner) => owner !== slowest && alone.get(owner));
    const kept = first.get(slowest);
    if (owners.length <= ALIKE_MAX || !others.length || !kept) continue;
    for (const owner of others) leftOut.add(owner);
    alike.set(kept.id, others.length);
  }
  return { spans: spans.filter((span) => !leftOut.has(deviceOf(span))), alike };
}

function deviceOf(span: Span | undefined): string {
  return span?.fact.kind === ATTACHMENT ? span.fact.subject_id : "";
}

function later(lastAt: ReadonlyMap<string, number>, one: string, two: string): boolean {
  const [oneAt, twoAt] = [lastAt.get(one) ?? 0, lastAt.get(two) ?? 0];
  return oneAt === twoAt ? one > two : oneAt > twoAt;
}
