/** What the legend counts: one pass over all cells, twice a second at most. */

import type { FleetCells } from "./cells";
import type { CellState } from "./filter";
import { WHOLE_MILLI } from "./holders";
import { NO_JOB } from "./jobs";

export interface TeamTally {
  team: string;
  slot: number;
  gpuMilli: number;
}

export interface Tally {
  states: Record<CellState, number>;
  /** GPUs that are there. */
  gpus: number;
  heldMilli: number;
  nodes: number;
  nodesUsable: number;
  nodesLost: number;
  /** Most first. */
  teams: TeamTally[];
  jobs: number;
  /** Mean of the GPUs that are held, 0 where none is read. */
  utilisationPct: number;
  hottestC: number;
  /** Held, and hardly used: what somebody may want to know of. */
  idleHeld: number;
}

/** A held GPU below this is told as idle. */
export const IDLE_PCT = 5;

export function tally(cells: FleetCells): Tally {
  const counts = new Counts(cells);
  for (let at = 0; at < cells.nodes.length; at++) {
    counts.node(at);
  }
  return counts.result();
}

/** Sums while cells are walked through: nothing is allocated per cell. */
class Counts {
  private readonly states: Record<CellState, number> = {
    free: 0,
    held: 0,
    starting: 0,
    stopping: 0,
    withheld: 0,
    lost: 0,
    absent: 0,
    none: 0,
  };
  private readonly byTeam: number[] = [];
  private heldMilli = 0;
  private hottestC = 0;
  private idleHeld = 0;
  private used = 0;
  private read = 0;
  private usable = 0;
  private lost = 0;
  private readonly cells: FleetCells;

  constructor(cells: FleetCells) {
    this.cells = cells;
  }

  node(at: number): void {
    const { cells } = this;
    const node = cells.nodes[at];
    this.usable += node?.usable ? 1 : 0;
    this.lost += node?.lost ? 1 : 0;
    const readings = cells.readings[at];
    const [first, last] = [cells.base[at] as number, cells.base[at + 1] as number];
    for (let cell = first; cell < last; cell++) {
      const state = cells.stateOf(cell);
      this.states[state]++;
      if (state === "absent" || state === "none") {
        continue;
      }
      const isHeld = this.holders(cell);
      const reading = readings?.[cell - first];
      if (reading) {
        this.hottestC = Math.max(this.hottestC, reading[1]);
        if (isHeld) {
          this.used += reading[0];
          this.read++;
          this.idleHeld += reading[0] < IDLE_PCT ? 1 : 0;
        }
      }
    }
  }

  result(): Tally {
    const { states, heldMilli, hottestC, idleHeld, cells } = this;
    const teams = [...cells.teams.entries()]
      .map(([team, slot]) => ({ team, slot, gpuMilli: this.byTeam[slot] ?? 0 }))
      .filter((team) => team.gpuMilli > 0);
    return {
      states,
      heldMilli,
      hottestC,
      idleHeld,
      gpus: cells.count - states.absent - states.none,
      nodes: cells.nodes.length,
      nodesUsable: this.usable,
      nodesLost: this.lost,
      teams: teams.sort((a, b) => b.gpuMilli - a.gpuMilli || a.team.localeCompare(b.team)),
      jobs: cells.jobs.size,
      utilisationPct: this.read > 0 ? this.used / this.read : 0,
    };
  }

  /** Count what is held of a cell; whether anything is. */
  private holders(cell: number): boolean {
    const whole = this.cells.holders.whole[cell] as number;
    if (whole !== NO_JOB) {
      this.held(whole, WHOLE_MILLI);
      return true;
    }
    const shares = this.cells.holders.shares(cell);
    for (const { job, milli } of shares ?? []) {
      this.held(job, milli);
    }
    return shares !== undefined;
  }

  private held(number: number, milli: number): void {
    const job = this.cells.jobs.known[number];
    if (job) {
      this.heldMilli += milli;
      this.byTeam[job.team] = (this.byTeam[job.team] ?? 0) + milli;
    }
  }
}
