/**
 * The fleet as cells: what each GPU's place looks like now, and which of them changed to the eye since they were drawn.
 *
 * Pure but for its own memory. Work per change grows with the nodes that it touches, never with the fleet; only a node
 * that comes, goes or gets more places has everything arranged anew.
 */

import { placesOf } from "../../slots";
import type { JobView, NodeView, Reading, Slot } from "../../wire";
import { Arrangement, type Source } from "./arrangement";
import { Attention } from "./attention";
import { DirtySet } from "./dirty";
import { type CellState, type Filter, jobBits } from "./filter";
import { Holders } from "./holders";
import { HOLDS, JobNumbers, jobColour, type KnownJob, NO_JOB } from "./jobs";
import { DIM, HATCHED, JOINED, Kind, withKind, withMark, withVersion } from "./look";
import {
  AT,
  type ColourBy,
  HUES,
  JOB_COLOURS,
  markOfSlot,
  step,
  TEMPERATURE_C,
  type TeamSlots,
  UTILISATION_PCT,
} from "./palette";

export interface Changed {
  reset: boolean;
  jobs: ReadonlySet<string>;
  goneJobs: ReadonlySet<string>;
  nodes: ReadonlySet<string>;
  goneNodes: ReadonlySet<string>;
  telemetry: ReadonlySet<string>;
}

export class FleetCells extends Arrangement {
  look = new Uint32Array(0);
  holders = new Holders(0);
  dirty = new DirtySet(0);
  readonly jobs = new JobNumbers();
  readonly teams: TeamSlots;
  private readonly attention = new Attention();
  private touched = new Uint8Array(0);
  private readonly touchedList: number[] = [];
  private colourBy: ColourBy = "job";
  private isWorded = false;

  constructor(teams: TeamSlots) {
    super();
    this.teams = teams;
  }

  get isByTeam(): boolean {
    return this.colourBy === "team";
  }

  /** Fold what changed in the source. True: cells were arranged anew. */
  apply(source: Source, changed: Changed): boolean {
    if (changed.reset || this.isRearranged(source, changed)) {
      this.reset(source);
      return true;
    }
    for (const name of changed.nodes) {
      const node = source.nodes.get(name);
      const at = this.indexOf(name);
      if (node && at >= 0) {
        this.nodes[at] = node;
        this.attention.changed(at, node);
        this.see(at);
      }
    }
    for (const name of changed.telemetry) {
      const at = this.indexOf(name);
      if (at >= 0) {
        this.readings[at] = source.telemetry.get(name);
        this.see(at);
      }
    }
    this.applyJobs(source, changed);
    this.refreshTouched();
    return false;
  }

  /** Nodes whose places are known to be more than they show. True: cells were arranged anew. */
  setHints(hints: ReadonlyMap<string, number>, source: Source): boolean {
    const grows = this.hint(hints);
    if (grows) {
      this.reset(source);
    }
    return grows;
  }

  setColourBy(colourBy: ColourBy): void {
    if (colourBy !== this.colourBy) {
      this.colourBy = colourBy;
      this.refreshAll();
    }
  }

  /** Cells bear words: one that reads another number looks different, also in the same colour. */
  setWorded(isWorded: boolean): void {
    if (isWorded !== this.isWorded) {
      this.isWorded = isWorded;
      this.refreshAll();
    }
  }

  setFilter(filter: Filter): void {
    this.attention.look(filter, this.nodes);
    this.jobs.filtered(filter);
    this.refreshAll();
  }

  /** Everything but this job, or this team's jobs, steps back; "" for none. */
  emphasise({ job = "", team = "" }: { job?: string; team?: string }): void {
    if (this.attention.emphasise(job, team ? this.teams.of(team) : -1)) {
      this.refreshAll();
    }
  }

  job(number: number): KnownJob | undefined {
    return number === NO_JOB ? undefined : this.jobs.known[number];
  }

  /** Index of a job's colour, by what cells are coloured now. */
  colourOf(job: KnownJob): number {
    return this.colourBy === "team" ? AT.team + (job.team % HUES) : AT.job + Math.max(0, job.colour);
  }

  stateOf(cell: number): CellState {
    const at = this.nodeOf[cell] as number;
    const node = this.nodes[at];
    if (!node || node.lost) {
      return "lost";
    }
    if (this.present[cell] === 0) {
      return this.isWithoutGpus(at) ? "none" : "absent";
    }
    const holder = this.holders.first(cell);
    if (holder === NO_JOB) {
      return node.usable ? "free" : "withheld";
    }
    const phase = this.job(holder)?.row.phase;
    return phase === "placed" ? "starting" : phase === "stopping" ? "stopping" : "held";
  }

  /** What is written on a cell where there is room: its job, its team, or what it reads. */
  wordOf(cell: number): string {
    const at = this.nodeOf[cell] as number;
    const reading = this.readings[at]?.[cell - (this.base[at] as number)];
    switch (this.colourBy) {
      case "utilisation":
        return reading ? String(Math.round(reading[0])) : "";
      case "temperature":
        return reading ? String(Math.round(reading[1])) : "";
      default: {
        const row = this.job(this.holders.whole[cell] as number)?.row;
        return (this.colourBy === "team" ? row?.team : row?.name) ?? "";
      }
    }
  }

  /** A place of the node in that state that is not among `taken`: the first absent one, or the last free one. */
  placeFor(node: string, state: "absent" | "free", taken: ReadonlySet<number>): number {
    const at = this.indexOf(node);
    const places = Array.from({ length: this.places[at] ?? 0 }, (_, place) => place);
    const base = this.base[at] ?? 0;
    const fits = places.filter((place) => this.stateOf(base + place) === state && !taken.has(place));
    return (state === "absent" ? fits[0] : fits.at(-1)) ?? Math.max(0, places.length - 1);
  }

  reset(source: Source): void {
    this.jobs.clear();
    const teams = new Set<string>();
    for (const row of source.jobs.values()) {
      this.countPlaces(row);
      teams.add(row.team);
    }
    this.teams.enter(teams);
    this.arrange(source);
    this.attention.arranged(this.nodes);
    this.look = new Uint32Array(this.count);
    this.holders = new Holders(this.count);
    this.dirty = new DirtySet(this.count);
    this.touched = new Uint8Array(this.nodes.length);
    this.touchedList.length = 0;
    this.nodes.forEach((_, at) => {
      this.see(at);
    });
    for (const row of source.jobs.values()) {
      this.hold(row);
    }
    this.refreshTouched();
    for (let cell = 0; cell < this.count; cell++) {
      this.dirty.add(cell);
    }
  }

  private isRearranged(source: Source, { jobs, nodes, goneNodes, telemetry }: Changed): boolean {
    for (const name of goneNodes) {
      if (this.indexOf(name) >= 0) {
        return true;
      }
    }
    for (const id of jobs) {
      const row = source.jobs.get(id);
      if (row && HOLDS.has(row.phase) && this.countPlaces(row)) {
        return true;
      }
    }
    for (const names of [nodes, telemetry]) {
      for (const name of names) {
        const node = source.nodes.get(name);
        if (node && this.isNews(node, source)) {
          return true;
        }
      }
    }
    return false;
  }

  private applyJobs(source: Source, { jobs, goneJobs }: Changed): void {
    for (const id of goneJobs) {
      this.forget(id);
    }
    for (const id of jobs) {
      this.release(id); // all of them first: one may have come where another was
    }
    for (const id of jobs) {
      const row = source.jobs.get(id);
      if (row) {
        this.hold(row);
      }
    }
  }

  private hold(row: JobView): void {
    if (!HOLDS.has(row.phase)) {
      this.forget(row.id);
      return;
    }
    let number = this.jobs.numberOf(row.id);
    if (number === NO_JOB) {
      number = this.jobs.enter(row, this.teams);
    }
    const job = this.jobs.known[number] as KnownJob;
    job.row = row;
    job.bits = jobBits(this.attention.filter, row);
    job.slots = row.slots;
    if (job.colour < 0) {
      job.colour = jobColour(row.id, this.coloursAround(row.slots));
    }
    this.eachCell(job.slots, (cell, milli) => this.holders.take(cell, number, milli));
  }

  private release(id: string): void {
    const number = this.jobs.numberOf(id);
    const job = this.job(number);
    if (job) {
      this.eachCell(job.slots, (cell) => this.holders.release(cell, number));
      job.slots = [];
    }
  }

  private forget(id: string): void {
    this.release(id);
    this.jobs.leave(id);
  }

  private eachCell(slots: readonly Slot[], visit: (cell: number, milli: number) => void): void {
    for (const slot of slots) {
      const at = this.indexOf(slot.node);
      if (at < 0) {
        continue;
      }
      this.see(at);
      for (const device of placesOf(slot)) {
        if (device < (this.places[at] as number)) {
          visit((this.base[at] as number) + device, slot.gpu_milli);
        }
      }
    }
  }

  /** Colours of the jobs on the first node of these slots, one bit each. */
  private coloursAround(slots: readonly Slot[]): number {
    const at = this.indexOf(slots[0]?.node ?? "");
    let taken = 0;
    for (let cell = this.base[at] ?? 0; at >= 0 && cell < (this.base[at + 1] as number); cell++) {
      for (const part of this.holders.all(cell)) {
        const colour = this.job(part.job)?.colour ?? -1;
        taken |= colour >= 0 && colour < JOB_COLOURS ? 1 << colour : 0;
      }
    }
    return taken;
  }

  private see(node: number): void {
    if (this.touched[node] === 0) {
      this.touched[node] = 1;
      this.touchedList.push(node);
    }
  }

  private refreshAll(): void {
    for (let node = 0; node < this.nodes.length; node++) {
      this.refresh(node);
    }
  }

  private refreshTouched(): void {
    for (const node of this.touchedList) {
      this.touched[node] = 0;
      this.markPresent(node, this.holders);
      this.refresh(node);
    }
    this.touchedList.length = 0;
  }

  private refresh(at: number): void {
    for (let cell = this.base[at] as number; cell < (this.base[at + 1] as number); cell++) {
      const look = this.lookOf(cell, at);
      if (look !== this.look[cell]) {
        this.look[cell] = look;
        this.dirty.add(cell);
      }
    }
  }

  private lookOf(cell: number, at: number): number {
    const node = this.nodes[at] as NodeView;
    const look = this.plainLook(cell, at, node);
    const hatched = node.usable || node.lost || this.present[cell] === 0 ? look : look | HATCHED;
    const isLeftOut =
      !this.attention.isIdle && this.attention.leavesOut(at, this.stateOf(cell), this.holders.all(cell), this.jobs);
    return (isLeftOut ? hatched | DIM : hatched) >>> 0;
  }

  private plainLook(cell: number, at: number, node: NodeView): number {
    if (node.lost) {
      return withKind(AT.lost, Kind.lost);
    }
    if (this.present[cell] === 0) {
      return this.isWithoutGpus(at) ? withKind(AT.noGpu, Kind.noGpu) : withKind(AT.hollow, Kind.hollow);
    }
    if (this.colourBy === "utilisation" || this.colourBy === "temperature") {
      return this.measuredLook(this.readings[at]?.[cell - (this.base[at] as number)], this.holders.isFree(cell));
    }
    const job = this.holders.whole[cell] as number;
    if (job !== NO_JOB) {
      return this.heldLook(cell, at, job);
    }
    return this.holders.isFree(cell)
      ? withKind(AT.free, Kind.free)
      : withVersion(withKind(AT.free, Kind.split), this.holders.version[cell] as number);
  }

  private measuredLook(reading: Reading | null | undefined, isFree: boolean): number {
    if (this.colourBy === "utilisation" && isFree) {
      return withKind(AT.free, Kind.free); // held and idle is what one looks for, and is not the same as free
    }
    if (!reading) {
      return withMark(withKind(AT.unread, Kind.solid), 1);
    }
    const [value, look] =
      this.colourBy === "utilisation"
        ? [reading[0], AT.utilisation + step(reading[0], UTILISATION_PCT)]
        : [reading[1], AT.temperature + step(reading[1], TEMPERATURE_C)];
    return this.isWorded ? withVersion(look, Math.max(0, Math.round(value))) : look;
  }

  private heldLook(cell: number, at: number, number: number): number {
    const job = this.jobs.known[number] as KnownJob;
    const phase = job.row.phase;
    const kind = phase === "placed" ? Kind.starting : phase === "stopping" ? Kind.stopping : Kind.solid;
    const isJoined = cell + 1 < (this.base[at + 1] as number) && this.holders.whole[cell + 1] === number;
    const look = withKind(this.colourOf(job), kind) | (isJoined ? JOINED : 0);
    return this.colourBy === "team" ? withMark(look, markOfSlot(job.team)) : look;
  }
}
