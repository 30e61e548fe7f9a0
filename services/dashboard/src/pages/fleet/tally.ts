/** What the legend counts: one pass over all cells, twice a second at most. */

import type { FleetCells } from "./cells";
import type { CellState } from "./filter";

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
  const states: Record<CellState, number> = {
    free: 0,
    held: 0,
    starting: 0,
    stopping: 0,
    withheld: 0,
    lost: 0,
    absent: 0,
    none: 0,
  };
  const byTeam = new Map<string, TeamTally>();
  const found = { gpus: 0, heldMilli: 0, hottestC: 0, idleHeld: 0 };
  let used = 0;
  let read = 0;
  for (let cell = 0; cell < cells.count; cell++) {
    const state = cells.stateOf(cell);
    states[state]++;
    if (state === "absent" || state === "none") {
      continue;
    }
    found.gpus++;
    const at = cells.nodeOf[cell] as number;
    const holders = cells.holders.all(cell);
    for (const { job, milli } of holders) {
      const known = cells.job(job);
      if (known) {
        found.heldMilli += milli;
        count(byTeam, known.row.team, known.team, milli);
      }
    }
    const reading = cells.readings[at]?.[cell - (cells.base[at] as number)];
    if (reading) {
      found.hottestC = Math.max(found.hottestC, reading[1]);
      if (holders.length > 0) {
        used += reading[0];
        read++;
        found.idleHeld += reading[0] < IDLE_PCT ? 1 : 0;
      }
    }
  }
  return {
    ...found,
    states,
    nodes: cells.nodes.length,
    nodesUsable: cells.nodes.filter((node) => node.usable).length,
    nodesLost: cells.nodes.filter((node) => node.lost).length,
    teams: [...byTeam.values()].sort((a, b) => b.gpuMilli - a.gpuMilli || a.team.localeCompare(b.team)),
    jobs: cells.jobs.size,
    utilisationPct: read > 0 ? used / read : 0,
  };
}

function count(byTeam: Map<string, TeamTally>, team: string, slot: number, milli: number): void {
  const known = byTeam.get(team);
  if (known) {
    known.gpuMilli += milli;
  } else {
    byTeam.set(team, { team, slot, gpuMilli: milli });
  }
}
