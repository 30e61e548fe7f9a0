/** Who holds each cell: mostly one job the whole of it, sometimes several a share each. */

import { NO_JOB } from "./jobs";

export interface Part {
  job: number;
  milli: number;
}

export const WHOLE_MILLI = 1000;

export class Holders {
  /** Number of the job that holds the whole cell, NO_JOB if none does. */
  readonly whole: Int32Array;
  /** Counts up whenever the shares of a cell change. */
  readonly version: Uint16Array;
  private readonly shared = new Map<number, Part[]>();

  constructor(cells: number) {
    this.whole = new Int32Array(cells).fill(NO_JOB);
    this.version = new Uint16Array(cells);
  }

  /** The shares of a cell that is not held whole by one job; undefined if nobody has one. */
  shares(cell: number): readonly Part[] | undefined {
    return this.shared.get(cell);
  }

  isFree(cell: number): boolean {
    return this.whole[cell] === NO_JOB && !this.shared.has(cell);
  }

  /** One who holds something of the cell, NO_JOB if nobody does. */
  first(cell: number): number {
    const job = this.whole[cell] as number;
    return job === NO_JOB ? (this.shared.get(cell)?.[0]?.job ?? NO_JOB) : job;
  }

  /** Everybody who holds something of the cell. */
  all(cell: number): readonly Part[] {
    const job = this.whole[cell] as number;
    return job === NO_JOB ? (this.shared.get(cell) ?? []) : [{ job, milli: WHOLE_MILLI }];
  }

  take(cell: number, job: number, milli: number): void {
    const shares = this.shared.get(cell);
    const before = this.whole[cell] as number;
    if (!shares && before === NO_JOB && milli >= WHOLE_MILLI) {
      this.whole[cell] = job;
      return;
    }
    const list = shares ?? [];
    if (before !== NO_JOB) {
      list.push({ job: before, milli: WHOLE_MILLI }); // its end is told a moment later than who came after it
      this.whole[cell] = NO_JOB;
    }
    list.push({ job, milli });
    this.shared.set(cell, list);
    this.touch(cell);
  }

  release(cell: number, job: number): void {
    if (this.whole[cell] === job) {
      this.whole[cell] = NO_JOB;
      return;
    }
    const shares = this.shared.get(cell);
    const at = shares?.findIndex((part) => part.job === job) ?? -1;
    if (!shares || at < 0) {
      return;
    }
    shares.splice(at, 1);
    const [only] = shares;
    if (!only) {
      this.shared.delete(cell);
    } else if (shares.length === 1 && only.milli >= WHOLE_MILLI) {
      this.shared.delete(cell);
      this.whole[cell] = only.job;
    }
    this.touch(cell);
  }

  private touch(cell: number): void {
    this.version[cell] = ((this.version[cell] as number) + 1) & 0xffff;
  }
}
