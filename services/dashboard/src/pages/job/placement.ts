/** Where a job's replicas stand: racks, nodes, and on each node the cells of its GPUs. Pure. */

import { placesOf } from "../../slots";
import type { JobView, NodeView, Slot } from "../../wire";

/** milli: of this GPU, thousandths held by the job itself and by others. replicas: whose they are, `group.replica`. */
export interface Cell {
  readonly index: number;
  readonly mineMilli: number;
  readonly othersMilli: number;
  readonly replicas: readonly string[];
}

/**
 * state: "" if all is well with it. unknown: it is gone from the fleet, its cells are what the job says. isByCount: the
 * kubelet picked the GPUs, and a cell is one of them, nobody says which.
 */
export interface PlacedNode {
  readonly name: string;
  readonly model: string;
  readonly state: "" | "lost" | "withheld" | "unknown";
  readonly reason: string;
  readonly cells: readonly Cell[];
  readonly replicas: number;
  readonly isByCount: boolean;
}

/** name: domain of the outermost level that tells nodes apart, "" if the fleet has none. */
export interface Rack {
  readonly name: string;
  readonly level: string;
  readonly nodes: readonly PlacedNode[];
}

const WHOLE_MILLI = 1_000;
const LEVELS = ["rack", "block"]; // by what nodes are put side by side, the first that they have

/** The job's nodes by rack. jobs: all live ones, for what others hold beside it. */
export function placementOf(
  job: JobView,
  nodes: ReadonlyMap<string, NodeView>,
  jobs: ReadonlyMap<string, JobView>,
): readonly Rack[] {
  const slots = new Map<string, Slot[]>();
  for (const slot of job.slots) slots.set(slot.node, [...(slots.get(slot.node) ?? []), slot]);
  for (const name of job.nodes) if (!slots.has(name)) slots.set(name, []);
  const racks = new Map<string, { name: string; level: string; nodes: PlacedNode[] }>();
  for (const [name, own] of [...slots].sort(([one], [two]) => one.localeCompare(two, "en", { numeric: true }))) {
    const node = nodes.get(name);
    const [level, domain] = domainOf(node);
    const rack = racks.get(domain) ?? { name: domain, level, nodes: [] };
    rack.nodes.push(placedNode(name, node, own, node ? othersOn(node, job, jobs) : []));
    racks.set(domain, rack);
  }
  return [...racks.values()];
}

function domainOf(node: NodeView | undefined): readonly [string, string] {
  for (const level of LEVELS) {
    const domain = node?.domains.find(([name]) => name === level);
    if (domain) return [level, domain[1]];
  }
  return ["", ""];
}

function othersOn(node: NodeView, job: JobView, jobs: ReadonlyMap<string, JobView>): Slot[] {
  return node.jobs
    .filter((id) => id !== job.id)
    .flatMap((id) => jobs.get(id)?.slots.filter((slot) => slot.node === node.name) ?? []);
}

function placedNode(
  name: string,
  node: NodeView | undefined,
  own: readonly Slot[],
  others: readonly Slot[],
): PlacedNode {
  const highest = Math.max(-1, ...own.flatMap(placesOf), ...others.flatMap(placesOf));
  const count = Math.max(node?.gpus ?? 0, highest + 1);
  const cells = Array.from({ length: count }, (_none, index) => ({
    index,
    mineMilli: heldOf(own, index),
    othersMilli: heldOf(others, index),
    replicas: own.filter((slot) => placesOf(slot).includes(index)).map((slot) => `${slot.group}.${slot.replica}`),
  }));
  return {
    name,
    model: node?.gpu_model ?? "",
    state: node === undefined ? "unknown" : node.lost ? "lost" : node.usable ? "" : "withheld",
    reason: node?.reason ?? "",
    cells,
    replicas: own.length,
    isByCount: own.some((slot) => slot.gpus > 0),
  };
}

function heldOf(slots: readonly Slot[], index: number): number {
  const held = slots.reduce((sum, slot) => sum + (placesOf(slot).includes(index) ? slot.gpu_milli : 0), 0);
  return Math.min(WHOLE_MILLI, held);
}
