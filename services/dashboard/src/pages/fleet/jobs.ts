/** The jobs that hold something, numbered so that a cell can name one in a machine word. */

import type { JobView, Slot } from "../../wire";
import { type Filter, jobBits } from "./filter";
import { hash, JOB_COLOURS, type TeamSlots } from "./palette";

export interface KnownJob {
  row: JobView;
  team: number;
  /** -1 until it has a place: then one that none of its neighbours has. */
  colour: number;
  bits: number;
  /** What was last applied of it. */
  slots: readonly Slot[];
}

export const NO_JOB = -1;

export const HOLDS: ReadonlySet<string> = new Set(["placed", "running", "stopping"]);

/** Numbers are used again, so that they stay small for as long as the page lives. */
export class JobNumbers {
  readonly known: (KnownJob | undefined)[] = [];
  private readonly numbers = new Map<string, number>();
  private readonly free: number[] = [];

  numberOf(id: string): number {
    return this.numbers.get(id) ?? NO_JOB;
  }

  enter(row: JobView, teams: TeamSlots): number {
    const number = this.free.pop() ?? this.known.length;
    const entry: KnownJob = { row, team: teams.of(row.team), colour: -1, bits: 0, slots: [] };
    this.known[number] = entry;
    this.numbers.set(row.id, number);
    return number;
  }

  leave(id: string): void {
    const number = this.numbers.get(id);
    if (number !== undefined) {
      this.numbers.delete(id);
      this.known[number] = undefined;
      this.free.push(number);
    }
  }

  clear(): void {
    this.known.length = 0;
    this.free.length = 0;
    this.numbers.clear();
  }

  filtered(filter: Filter): void {
    for (const job of this.known) {
      if (job) {
        job.bits = jobBits(filter, job.row);
      }
    }
  }

  get size(): number {
    return this.numbers.size;
  }

  [Symbol.iterator](): IterableIterator<[string, number]> {
    return this.numbers.entries();
  }
}

/** A colour from the job's id, moved on while a neighbour has it. taken: one bit per colour. */
export function jobColour(id: string, taken: number): number {
  const wanted = hash(id) % JOB_COLOURS;
  for (let tried = 0; tried < JOB_COLOURS; tried++) {
    const colour = (wanted + tried) % JOB_COLOURS;
    if ((taken & (1 << colour)) === 0) {
      return colour;
    }
  }
  return wanted;
}
