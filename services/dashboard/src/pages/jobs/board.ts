/**
 * The rows of the table of jobs, kept filtered, grouped and in order while jobs change. Deterministic: time is given.
 *
 * A change costs one pass over the groups that it touches, however many rows changed with it, and nothing where neither
 * membership nor order changed; only another query is a sort of everything.
 */

import type { JobView } from "../../wire";
import { columnOf, groupOf } from "./columns";
import { type Fits, fitting, type JobQuery } from "./query";
import { PHASES, TERMINAL } from "./words";

/** One group; ungrouped, there is one with an empty name. jobs in order; phases: how many are in which. */
export interface Group {
  readonly name: string;
  readonly entries: readonly Entry[];
  readonly phases: ReadonlyMap<string, number>;
  readonly gpuMilli: number;
}

export interface Entry {
  readonly id: string;
  readonly job: JobView;
}

/** A line of the table as it is drawn. */
export type Line = { readonly group: Group; readonly isOpen: boolean } | { readonly job: JobView };

interface Kept {
  readonly id: string;
  job: JobView;
  readonly key: string | number;
  readonly group: string;
  isGone: boolean;
}

interface Filled {
  readonly name: string;
  entries: Kept[];
  coming: Kept[];
  hasGone: boolean;
  phases: Map<string, number>;
  gpuMilli: number;
}

export class JobBoard {
  #query: JobQuery;
  #fits: Fits;
  #fitsButPhase: Fits;
  readonly #kept = new Map<string, Kept>();
  readonly #groups = new Map<string, Filled>();
  #order: Filled[] = [];
  #hasNewGroup = false;
  readonly #phaseOf = new Map<string, string>();
  readonly #phases = new Map<string, number>();
  readonly #live = new Set<string>();

  constructor(query: JobQuery) {
    this.#query = query;
    this.#fits = fitting(query);
    this.#fitsButPhase = fitting(query, new Set(["phase"]));
  }

  /** How many jobs are shown, whether their groups are open or not. */
  get size(): number {
    return this.#kept.size;
  }

  /** How many live jobs there are in all. */
  get known(): number {
    return this.#live.size;
  }

  /** Whether the board counts this job among the live ones. */
  has(id: string): boolean {
    return this.#live.has(id);
  }

  /** How many jobs each phase has when every filter counts but that of the phase. */
  get phases(): ReadonlyMap<string, number> {
    return this.#phases;
  }

  get groups(): readonly Group[] {
    return this.#order;
  }

  /** Begin anew: with these jobs, by this query. */
  fill(query: JobQuery, jobs: Iterable<JobView>, nowNs: number): void {
    this.#query = query;
    this.#fits = fitting(query);
    this.#fitsButPhase = fitting(query, new Set(["phase"]));
    this.#order = [];
    for (const one of [this.#kept, this.#groups, this.#phaseOf, this.#phases, this.#live]) one.clear();
    for (const job of jobs) {
      if (TERMINAL.has(job.phase)) continue;
      this.#live.add(job.id);
      this.#countPhase(job, nowNs);
      if (this.#fits(job, nowNs)) this.#enter(job);
    }
    this.#settle();
  }

  /** Take in what changed. True if what is shown changed, or how many there are. */
  apply(changed: Iterable<string>, jobs: ReadonlyMap<string, JobView>, nowNs: number): boolean {
    let isChanged = false;
    for (const id of changed) {
      const found = jobs.get(id);
      const job = found && !TERMINAL.has(found.phase) ? found : undefined;
      if (job ? !this.#live.has(id) : this.#live.has(id)) isChanged = true;
      if (job) this.#live.add(id);
      else this.#live.delete(id);
      this.#recount(id, job, nowNs);
      isChanged = this.#change(id, job, nowNs) || isChanged;
    }
    this.#settle();
    return isChanged;
  }

  /** How many lines there are with these groups open. */
  length(open: ReadonlySet<string>): number {
    if (!this.#query.group) return this.#order[0]?.entries.length ?? 0;
    let lines = 0;
    for (const group of this.#order) lines += 1 + (open.has(group.name) ? group.entries.length : 0);
    return lines;
  }

  /** Lines from `start` on, at most `count`. Work grows with the groups and the lines that are asked for. */
  lines(start: number, count: number, open: ReadonlySet<string>): Line[] {
    const found: Line[] = [];
    let at = 0;
    for (const group of this.#order) {
      if (found.length >= count) break;
      const isOpen = !this.#query.group || open.has(group.name);
      if (this.#query.group) {
        if (at >= start) found.push({ group, isOpen });
        at += 1;
      }
      if (!isOpen) continue;
      const from = Math.max(0, start - at);
      const to = Math.min(group.entries.length, from + count - found.length);
      for (let index = from; index < to; index += 1) found.push({ job: (group.entries[index] as Kept).job });
      at += group.entries.length;
    }
    return found;
  }

  /** Where a job stands among the lines, -1 if it is not shown. */
  indexOf(id: string, open: ReadonlySet<string>): number {
    const kept = this.#kept.get(id);
    if (!kept || (this.#query.group && !open.has(kept.group))) return -1;
    let at = 0;
    for (const group of this.#order) {
      if (this.#query.group) at += 1;
      if (group.name === kept.group) return at + this.#place(group.entries, kept);
      if (!this.#query.group || open.has(group.name)) at += group.entries.length;
    }
    return -1;
  }

  #change(id: string, job: JobView | undefined, nowNs: number): boolean {
    const kept = this.#kept.get(id);
    if (!job || !this.#fits(job, nowNs)) {
      if (kept) this.#leave(kept);
      return kept !== undefined;
    }
    if (kept && kept.key === this.#keyOf(job) && kept.group === this.#groupOf(job)) {
      const group = this.#groups.get(kept.group);
      if (group) {
        count(group, kept.job, -1);
        count(group, job, 1);
      }
      kept.job = job;
      return true;
    }
    if (kept) this.#leave(kept);
    this.#enter(job);
    return true;
  }

  #enter(job: JobView): void {
    const name = this.#groupOf(job);
    let group = this.#groups.get(name);
    if (!group) {
      group = { name, entries: [], coming: [], hasGone: false, phases: new Map(), gpuMilli: 0 };
      this.#groups.set(name, group);
      this.#order.push(group);
      this.#hasNewGroup = true;
    }
    const kept = { id: job.id, job, key: this.#keyOf(job), group: name, isGone: false };
    this.#kept.set(job.id, kept);
    group.coming.push(kept);
    count(group, job, 1);
  }

  #leave(kept: Kept): void {
    kept.isGone = true;
    this.#kept.delete(kept.id);
    const group = this.#groups.get(kept.group);
    if (!group) return;
    group.hasGone = true;
    count(group, kept.job, -1);
  }

  /** Put in order what came and take out what went: one merge for each group that was touched. */
  #settle(): void {
    let isEmptied = false;
    if (this.#hasNewGroup) this.#order.sort((one, two) => this.#compareGroups(one.name, two.name));
    this.#hasNewGroup = false;
    for (const group of this.#order) {
      if (!group.hasGone && !group.coming.length) continue;
      group.entries = this.#merged(group);
      group.coming = [];
      group.hasGone = false;
      isEmptied = isEmptied || !group.entries.length;
    }
    if (!isEmptied) return;
    this.#order = this.#order.filter((group) => group.entries.length > 0);
    for (const [name, group] of this.#groups) if (!group.entries.length) this.#groups.delete(name);
  }

  #merged(group: Filled): Kept[] {
    const coming = group.coming.filter((kept) => !kept.isGone).sort(this.#compare);
    if (!group.entries.length) return coming;
    const merged: Kept[] = [];
    let next = 0;
    for (const kept of group.entries) {
      if (kept.isGone) continue;
      for (let one = coming[next]; one && this.#compare(one, kept) < 0; one = coming[next]) {
        merged.push(one);
        next += 1;
      }
      merged.push(kept);
    }
    for (; next < coming.length; next += 1) merged.push(coming[next] as Kept);
    return merged;
  }

  readonly #compare = (one: Kept, two: Kept): number => {
    const order = compareKeys(one.key, two.key) * (this.#query.descending ? -1 : 1);
    return order || (one.id < two.id ? -1 : one.id > two.id ? 1 : 0);
  };

  #place(entries: readonly Kept[], kept: Kept): number {
    let [low, high] = [0, entries.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#compare(entries[middle] as Kept, kept) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #keyOf(job: JobView): string | number {
    return columnOf(this.#query.sort)?.key(job) ?? 0;
  }

  #groupOf(job: JobView): string {
    const column = this.#query.group ? columnOf(this.#query.group) : undefined;
    return column ? groupOf(column, job) : "";
  }

  /** Phases by their course, numbers by size, else by name. */
  #compareGroups(one: string, two: string): number {
    if (this.#query.group === "phase") return phaseOrder(one) - phaseOrder(two);
    return one.localeCompare(two, "en", { numeric: true });
  }

  #countPhase(job: JobView, nowNs: number): void {
    if (!this.#fitsButPhase(job, nowNs)) return;
    this.#phaseOf.set(job.id, job.phase);
    this.#phases.set(job.phase, (this.#phases.get(job.phase) ?? 0) + 1);
  }

  #recount(id: string, job: JobView | undefined, nowNs: number): void {
    const before = this.#phaseOf.get(id);
    if (before !== undefined) {
      this.#phases.set(before, (this.#phases.get(before) ?? 1) - 1);
      this.#phaseOf.delete(id);
    }
    if (job) this.#countPhase(job, nowNs);
  }
}

function count(group: Filled, job: JobView, sign: 1 | -1): void {
  group.phases.set(job.phase, (group.phases.get(job.phase) ?? 0) + sign);
  group.gpuMilli += sign * job.gpu_milli;
}

function compareKeys(one: string | number, two: string | number): number {
  return one < two ? -1 : one > two ? 1 : 0;
}

function phaseOrder(phase: string): number {
  const place = (PHASES as readonly string[]).indexOf(phase);
  return place < 0 ? PHASES.length : place;
}
