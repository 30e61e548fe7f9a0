/** What a cell is, in words: for the tip, for those who hear the page, and for the table. */

import * as format from "../../ui/format";
import type { JobView, NodeView, Reading } from "../../wire";
import type { FleetCells } from "./cells";
import type { CellState } from "./filter";

export const STATE_WORDS: Record<CellState, string> = {
  free: "free",
  held: "held",
  starting: "starting",
  stopping: "stopping",
  withheld: "withheld",
  lost: "lost",
  absent: "no device in this place",
  none: "no GPUs",
};

export interface Told {
  title: string;
  state: string;
  lines: string[];
}

/** One GPU's place. */
export function tellCell(cells: FleetCells, cell: number): Told {
  const at = cells.nodeOf[cell] as number;
  const node = cells.nodes[at] as NodeView;
  const place = cell - (cells.base[at] as number);
  const state = cells.stateOf(cell);
  const holders = jobsOn(cells, cell);
  const lines = holders.map(({ job, milli }) => {
    const share = milli < 1000 ? `${format.percent(milli / 1000)} for ` : "";
    return `${share}job ${job.name} of team ${job.team}, ${job.phase}`;
  });
  const reading = cells.readings[at]?.[place];
  if (reading && state !== "absent") {
    lines.push(tellReading(reading));
  }
  if (node.reason && (node.lost || !node.usable)) {
    lines.push(node.reason);
  }
  const title = state === "none" ? node.name : `${node.name} · GPU ${place}`;
  return { title, state: stateInWords(node, state), lines };
}

/** A node as a whole. */
export function tellNode(node: NodeView): Told {
  const lines = [
    `${format.gpus(node.gpu_milli_held)} of ${format.many(node.gpus, "GPU")} held${node.gpu_model && `, ${node.gpu_model}`}`,
    `${format.cores(node.cpu_milli_held)} of ${format.cores(node.cpu_milli)} cores, ` +
      `${format.mebibytes(node.memory_mib_held)} of ${format.mebibytes(node.memory_mib)}`,
  ];
  if (node.reason) {
    lines.push(node.reason);
  }
  return { title: node.name, state: nodeState(node), lines };
}

export function nodeState(node: NodeView): string {
  return node.lost ? "lost" : node.usable ? "usable" : "not usable";
}

export function tellReading([utilisation, celsius, memoryMib, watts]: Reading): string {
  return `${Math.round(utilisation)} % used, ${Math.round(celsius)} °C, ${format.mebibytes(memoryMib)}, ${Math.round(watts)} W`;
}

/** One sentence, for a live region. */
export function sentence({ title, state, lines }: Told): string {
  return [`${title}: ${state}`, ...lines].join("; ");
}

/** Jobs that hold something of a cell, with how much. */
export function jobsOn(cells: FleetCells, cell: number): { job: JobView; milli: number }[] {
  return cells.holders.all(cell).flatMap(({ job, milli }) => {
    const row = cells.job(job)?.row;
    return row ? [{ job: row, milli }] : [];
  });
}

function stateInWords(node: NodeView, state: CellState): string {
  const isHeldHere = state === "held" || state === "starting" || state === "stopping";
  return isHeldHere && !node.usable ? `${STATE_WORDS[state]}, its node takes nothing new` : STATE_WORDS[state];
}
