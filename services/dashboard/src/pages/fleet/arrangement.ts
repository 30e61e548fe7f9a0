/** Which node has which cells: numbered without gaps, rack by rack, so that typed arrays can be indexed by them. */

import { placesOf } from "../../slots";
import type { JobView, NodeView, Reading } from "../../wire";
import type { Holders } from "./holders";
import { group, type Rack } from "./racks";

export type Readings = readonly (Reading | null)[];

export interface Source {
  nodes: ReadonlyMap<string, NodeView>;
  jobs: ReadonlyMap<string, JobView>;
  telemetry: ReadonlyMap<string, Readings>;
}

/** A node's places are counted in a byte. */
const PLACES_MAX = 128;

export class Arrangement {
  nodes: NodeView[] = [];
  racks: Rack[] = [];
  /** Cells of each node: one per place of a GPU, one that stands for the node if it has none. */
  places = new Uint8Array(0);
  /** First cell of each node; one more than there are nodes. */
  base = new Uint32Array(1);
  nodeOf = new Uint32Array(0);
  /** 1 where a device is in its place. */
  present = new Uint8Array(0);
  readings: (Readings | undefined)[] = [];
  private index = new Map<string, number>();
  /** Places that a node must have at least, by the slots of jobs, and by what else is known. */
  private readonly slotPlaces = new Map<string, number>();
  private hints: ReadonlyMap<string, number> = new Map();

  get count(): number {
    return this.nodeOf.length;
  }

  indexOf(node: string): number {
    return this.index.get(node) ?? -1;
  }

  isWithoutGpus(at: number): boolean {
    return this.nodes[at]?.gpus === 0 && this.places[at] === 1 && !this.readings[at];
  }

  arrange({ nodes, telemetry }: Source): void {
    const grouped = group(nodes.values());
    this.nodes = grouped.nodes;
    this.racks = grouped.racks;
    this.index = new Map(this.nodes.map((node, at) => [node.name, at]));
    this.readings = this.nodes.map((node) => telemetry.get(node.name));
    this.places = Uint8Array.from(this.nodes, (node) => this.placesOf(node, telemetry.get(node.name)));
    this.base = new Uint32Array(this.nodes.length + 1);
    this.places.forEach((places, at) => {
      this.base[at + 1] = (this.base[at] as number) + places;
    });
    const cells = this.base[this.nodes.length] as number;
    this.nodeOf = new Uint32Array(cells);
    this.nodes.forEach((_, at) => {
      this.nodeOf.fill(at, this.base[at], this.base[at + 1]);
    });
    this.present = new Uint8Array(cells);
  }

  /** True: some node has fewer cells than it is hinted to have places. */
  hint(hints: ReadonlyMap<string, number>): boolean {
    this.hints = hints;
    return [...hints].some(([name, least]) => least > (this.places[this.indexOf(name)] ?? PLACES_MAX));
  }

  /** Whether the node is new, stands elsewhere, or has more places than cells. */
  isNews(node: NodeView, { telemetry }: Source): boolean {
    const at = this.indexOf(node.name);
    const known = this.nodes[at];
    return !known || isElsewhere(node, known) || this.placesOf(node, telemetry.get(node.name)) > (this.places[at] ?? 0);
  }

  /** True: a slot of the job names a place for which its node has no cell. */
  countPlaces(row: JobView): boolean {
    let grows = false;
    for (const slot of row.slots) {
      const least = Math.min(PLACES_MAX, 1 + Math.max(-1, ...placesOf(slot)));
      if (least > (this.slotPlaces.get(slot.node) ?? 0)) {
        this.slotPlaces.set(slot.node, least);
        grows ||= least > (this.places[this.indexOf(slot.node)] ?? PLACES_MAX);
      }
    }
    return grows;
  }

  /** Which places of a node have a device: as last read, corrected by how many the node says there are now. */
  protected markPresent(at: number, holders: Holders): void {
    const gpus = this.nodes[at]?.gpus ?? 0;
    const readings = this.readings[at];
    const [first, last] = [this.base[at] as number, this.base[at + 1] as number];
    let there = 0;
    for (let cell = first; cell < last; cell++) {
      const isThere = readings ? (readings[cell - first] ?? null) !== null : cell - first < gpus;
      this.present[cell] = isThere ? 1 : 0;
      there += isThere ? 1 : 0;
    }
    for (let cell = first; cell < last && there < gpus; cell++) {
      if (this.present[cell] === 0) {
        this.present[cell] = 1; // a device that came takes the first empty place, and is read later
        there++;
      }
    }
    for (let cell = last - 1; cell >= first && there > gpus; cell--) {
      if (this.present[cell] === 1 && holders.isFree(cell)) {
        this.present[cell] = 0;
        there--;
      }
    }
  }

  private placesOf(node: NodeView, readings: Readings | undefined): number {
    const least = Math.max(1, this.hints.get(node.name) ?? 0, this.slotPlaces.get(node.name) ?? 0);
    return Math.min(PLACES_MAX, Math.max(least, node.gpus, readings?.length ?? 0));
  }
}

const isElsewhere = (a: NodeView, b: NodeView): boolean =>
  a.group !== b.group || a.cluster !== b.cluster || String(a.domains) !== String(b.domains);
