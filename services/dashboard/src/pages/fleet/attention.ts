/** What the map is to draw attention to: the rest steps back. A filter that was typed, a job or team that is pointed at. */

import type { NodeView } from "../../wire";
import { type CellState, type Filter, NO_FILTER, nodeBits, stateBits } from "./filter";
import type { Part } from "./holders";
import type { JobNumbers, KnownJob } from "./jobs";

export class Attention {
  filter: Filter = NO_FILTER;
  private readonly byState = new Map<CellState, number>();
  private byNode = new Int32Array(0);
  private job = "";
  private team = -1;

  /** team: slot of a team, -1 for none. Returns whether that is anything new. */
  emphasise(job: string, team: number): boolean {
    const isNew = job !== this.job || team !== this.team;
    this.job = job;
    this.team = team;
    return isNew;
  }

  look(filter: Filter, nodes: readonly NodeView[]): void {
    this.filter = filter;
    this.byState.clear();
    this.arranged(nodes);
  }

  arranged(nodes: readonly NodeView[]): void {
    this.byNode = Int32Array.from(nodes, (node) => nodeBits(this.filter, node));
  }

  changed(at: number, node: NodeView): void {
    this.byNode[at] = nodeBits(this.filter, node);
  }

  /** Nothing steps back. */
  get isIdle(): boolean {
    return this.job === "" && this.team < 0 && this.filter.all === 0;
  }

  /** Whether a cell of that node, in that state, held by these, steps back. */
  leavesOut(at: number, state: CellState, holders: readonly Part[], jobs: JobNumbers): boolean {
    const isPointing = this.job !== "" || this.team >= 0;
    const { all } = this.filter;
    const held = holders.flatMap((part) => jobs.known[part.job] ?? []);
    if (isPointing && !held.some((job) => this.isMeant(job))) {
      return true;
    }
    return held.reduce((found, job) => found | job.bits, (this.byNode[at] as number) | this.ofState(state)) !== all;
  }

  private isMeant(job: KnownJob): boolean {
    return job.row.id === this.job || job.team === this.team;
  }

  private ofState(state: CellState): number {
    let known = this.byState.get(state);
    if (known === undefined) {
      known = stateBits(this.filter, state);
      this.byState.set(state, known);
    }
    return known;
  }
}
