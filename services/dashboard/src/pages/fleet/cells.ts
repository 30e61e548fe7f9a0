/**
 * The fleet as cells: what each GPU's place looks like now, and which of them changed to the eye since they were drawn.
 *
 * Pure but for its own memory. Work per change grows with the nodes that it touches, never with the fleet; only a node
 * that comes, goes or gets more places has everything arranged anew.
 */

import type { JobView, NodeView, Reading, Slot } from "../../wire";
import { DirtySet } from "./dirty";
import { type CellState, type Filter, jobBits, NO_FILTER, nodeBits, stateBits } from "./filter";
import { Holders } from "./holders";
import { HOLDS, JobNumbers, jobColour, type KnownJob, NO_JOB } from "./jobs";
import { COLOUR, DIM, HATCHED, JOINED, Kind, withKind, withMark, withSplit } from "./look";
import { AT, type ColourBy, HUES, JOB_COLOURS, step, TEMPERATURE_C, type TeamSlots, UTILISATION_PCT } from "./palette";
import { group, type Rack } from "./racks";

export type Readings = readonly (Reading | null)[];

export interface Source {
  nodes: ReadonlyMap<string, NodeView>;
  jobs: ReadonlyMap<string, JobView>;
  telemetry: ReadonlyMap<string, Readings>;
}

export interface Changed {
  reset: boolean;
  jobs: ReadonlySet<string>;
  goneJobs: ReadonlySet<string>;
  nodes: ReadonlySet<string>;
  goneNodes: ReadonlySet<string>;
  telemetry: ReadonlySet<string>;
}

export interface Emphasis {
  job?: string;
  team?: string;
}

/** A node's places are counted in a byte. */
const PLACES_MAX = 128;

export class FleetCells {
  nodes: NodeView[] = [];
  racks: Rack[] = [];
  places = new Uint8Array(0);
  base = new Uint32Array(1);
  nodeOf = new Uint32Array(0);
  present = new Uint8Array(0);
  look = new Uint32Array(0);
  readings: (Readings | undefined)[] = [];
  holders = new Holders(0);
  dirty = new DirtySet(0);
  /** Counts up whenever cells are arranged anew. */
  arrangement = 0;
  readonly jobs = new JobNumbers();

  private index = new Map<string, number>();
  private bits = new Int32Array(0);
  private stateBits = new Map<CellState, number>();
  private touched = new Uint8Array(0);
  private readonly touchedList: number[] = [];
  /** Places that a node must have at least, by what else is known: of slots, and of devices on their way. */
  private readonly slotPlaces = new Map<string, number>();
  private hints: ReadonlyMap<string, number> = new Map();
  private colourBy: ColourBy = "job";
  private filter: Filter = NO_FILTER;
  private emphasisJob = "";
  private emphasisTeam = -1;

  readonly teams: TeamSlots;

  constructor(teams: TeamSlots) {
    this.teams = teams;
  }

  get count(): number {
    return this.look.length;
  }

  indexOf(node: string): number {
    return this.index.get(node) ?? -1;
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
        this.bits[at] = nodeBits(this.filter, node);
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
    for (const id of changed.goneJobs) {
      this.forget(id);
    }
    for (const id of changed.jobs) {
      this.release(id);
    }
    for (const id of changed.jobs) {
      const row = source.jobs.get(id);
      if (row) {
        this.hold(row);
      }
    }
    this.refreshTouched();
    return false;
  }

  /** Nodes whose places are known to be more than they show. True: cells were arranged anew. */
  setHints(hints: ReadonlyMap<string, number>, source: Source): boolean {
    this.hints = hints;
    const grows = [...hints].some(([name, least]) => least > (this.places[this.indexOf(name)] ?? PLACES_MAX));
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

  setFilter(filter: Filter): void {
    this.filter = filter;
    this.jobs.filtered(filter);
    this.stateBits.clear();
    this.nodes.forEach((node, at) => {
      this.bits[at] = nodeBits(filter, node);
    });
    this.refreshAll();
  }

  /** Everything but this job, or this team's jobs, steps back. */
  emphasise({ job = "", team = "" }: Emphasis): void {
    const slot = team ? this.teams.of(team) : -1;
    if (job !== this.emphasisJob || slot !== this.emphasisTeam) {
      this.emphasisJob = job;
      this.emphasisTeam = slot;
      this.refreshAll();
    }
  }

  /** All cells are to be drawn, also those that look as before: the colours or the places on the screen changed. */
  dirtyAll(): void {
    for (let cell = 0; cell < this.count; cell++) {
      this.dirty.add(cell);
    }
  }

  job(number: number): KnownJob | undefined {
    return number === NO_JOB ? undefined : this.jobs.known[number];
  }

  stateOf(cell: number): CellState {
    const node = this.nodes[this.nodeOf[cell] as number];
    if (!node || node.lost) {
      return "lost";
    }
    if (this.present[cell] === 0) {
      return this.isWithoutGpus(this.nodeOf[cell] as number) ? "none" : "absent";
    }
    const whole = this.holders.whole[cell] as number;
    const holder = whole === NO_JOB ? this.holders.shares(cell)?.[0]?.job : whole;
    if (holder === undefined) {
      return node.usable ? "free" : "withheld";
    }
    const phase = this.job(holder)?.row.phase;
    return phase === "placed" ? "starting" : phase === "stopping" ? "stopping" : "held";
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
    const grouped = group(source.nodes.values());
    for (const row of source.jobs.values()) {
      this.countPlaces(row);
    }
    this.nodes = grouped.nodes;
    this.racks = grouped.racks;
    this.index = new Map(this.nodes.map((node, at) => [node.name, at]));
    this.readings = this.nodes.map((node) => source.telemetry.get(node.name));
    this.bits = Int32Array.from(this.nodes, (node) => nodeBits(this.filter, node));
    this.places = Uint8Array.from(this.nodes, (node) => this.placesOf(node, source.telemetry.get(node.name)));
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
    this.look = new Uint32Array(cells);
    this.holders = new Holders(cells);
    this.dirty = new DirtySet(cells);
    this.touched = new Uint8Array(this.nodes.length);
    this.touchedList.length = 0;
    this.nodes.forEach((_, at) => {
      this.see(at);
    });
    for (const row of source.jobs.values()) {
      this.hold(row);
    }
    this.refreshTouched();
    this.dirtyAll();
    this.arrangement++;
  }

  private isRearranged(source: Source, changed: Changed): boolean {
    for (const name of changed.goneNodes) {
      if (this.indexOf(name) >= 0) {
        return true;
      }
    }
    for (const id of changed.jobs) {
      const row = source.jobs.get(id);
      if (row && HOLDS.has(row.phase) && this.countPlaces(row)) {
        return true;
      }
    }
    for (const name of changed.nodes) {
      const node = source.nodes.get(name);
      const known = this.nodes[this.indexOf(name)];
      if (!node || !known || this.needsMore(node, source) || isElsewhere(node, known)) {
        return true;
      }
    }
    for (const name of changed.telemetry) {
      const node = source.nodes.get(name);
      if (node && this.needsMore(node, source)) {
        return true;
      }
    }
    return false;
  }

  private needsMore(node: NodeView, source: Source): boolean {
    return this.placesOf(node, source.telemetry.get(node.name)) > (this.places[this.indexOf(node.name)] ?? 0);
  }

  private placesOf(node: NodeView, readings: Readings | undefined): number {
    const least = Math.max(1, this.hints.get(node.name) ?? 0, this.slotPlaces.get(node.name) ?? 0);
    return Math.min(PLACES_MAX, Math.max(least, node.gpus, readings?.length ?? 0));
  }

  /** True: a node turned out to have more places than there are cells. */
  private countPlaces(row: JobView): boolean {
    let grows = false;
    for (const slot of row.slots) {
      const least = Math.min(PLACES_MAX, 1 + Math.max(-1, ...slot.devices));
      if (least > (this.slotPlaces.get(slot.node) ?? 0)) {
        this.slotPlaces.set(slot.node, least);
        grows ||= least > (this.places[this.indexOf(slot.node)] ?? PLACES_MAX);
      }
    }
    return grows;
  }

  private hold(row: JobView): void {
    if (!HOLDS.has(row.phase)) {
      this.forget(row.id);
      return;
    }
    let number = this.jobs.numberOf(row.id);
    if (number === NO_JOB) {
      number = this.jobs.enter(row, this.teams, this.filter);
    }
    const job = this.jobs.known[number] as KnownJob;
    job.row = row;
    job.bits = jobBits(this.filter, row);
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
      for (const device of slot.devices) {
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
      this.markPresent(node);
      this.refresh(node);
    }
    this.touchedList.length = 0;
  }

  /** Which places have a device: as last read, corrected by how many the node says there are now. */
  private markPresent(at: number): void {
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
      if (this.present[cell] === 1 && this.holders.all(cell).length === 0) {
        this.present[cell] = 0;
        there--;
      }
    }
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
    return (this.isLeftOut(cell, at) ? hatched | DIM : hatched) >>> 0;
  }

  private plainLook(cell: number, at: number, node: NodeView): number {
    if (node.lost) {
      return withKind(AT.lost, Kind.lost);
    }
    if (this.present[cell] === 0) {
      return this.isWithoutGpus(at) ? withKind(AT.noGpu, Kind.noGpu) : withKind(AT.hollow, Kind.hollow);
    }
    const job = this.holders.whole[cell] as number;
    const isShared = job === NO_JOB && this.holders.shares(cell) !== undefined;
    if (this.colourBy === "utilisation" || this.colourBy === "temperature") {
      const isFree = job === NO_JOB && !isShared;
      return this.measuredLook(this.readings[at]?.[cell - (this.base[at] as number)], isFree);
    }
    if (isShared) {
      return withSplit(withKind(AT.free, Kind.split), this.holders.version[cell] as number);
    }
    return job === NO_JOB ? withKind(AT.free, Kind.free) : this.heldLook(cell, at, job);
  }

  private measuredLook(reading: Reading | null | undefined, isFree: boolean): number {
    if (this.colourBy === "utilisation" && isFree) {
      return withKind(AT.free, Kind.free); // held and idle is what one looks for, and is not the same as free
    }
    if (!reading) {
      return withMark(withKind(AT.unread, Kind.solid), 1);
    }
    return this.colourBy === "utilisation"
      ? AT.utilisation + step(reading[0], UTILISATION_PCT)
      : AT.temperature + step(reading[1], TEMPERATURE_C);
  }

  private heldLook(cell: number, at: number, number: number): number {
    const job = this.jobs.known[number] as KnownJob;
    const colour = this.colourOf(job);
    const phase = job.row.phase;
    const kind = phase === "placed" ? Kind.starting : phase === "stopping" ? Kind.stopping : Kind.solid;
    const isJoined = cell + 1 < (this.base[at + 1] as number) && this.holders.whole[cell + 1] === number;
    const look = withKind(colour, kind) | (isJoined ? JOINED : 0);
    return this.colourBy === "team" ? withMark(look, Math.floor(job.team / HUES)) : look;
  }

  get isByTeam(): boolean {
    return this.colourBy === "team";
  }

  /** Index of a job's colour, by what cells are coloured now. */
  colourOf(job: KnownJob): number {
    return this.colourBy === "team" ? AT.team + (job.team % HUES) : AT.job + Math.max(0, job.colour);
  }

  isWithoutGpus(at: number): boolean {
    return this.nodes[at]?.gpus === 0 && this.places[at] === 1 && !this.readings[at];
  }

  private isLeftOut(cell: number, at: number): boolean {
    const { all } = this.filter;
    const whole = this.holders.whole[cell] as number;
    if (this.emphasisJob || this.emphasisTeam >= 0) {
      const isMeant = this.holders.all(cell).some((part) => this.isEmphasised(part.job));
      if (!isMeant) {
        return true;
      }
    }
    if (all === 0) {
      return false;
    }
    let found = (this.bits[at] as number) | this.bitsOfState(cell);
    if (whole !== NO_JOB) {
      found |= this.jobs.known[whole]?.bits ?? 0;
    } else {
      for (const part of this.holders.shares(cell) ?? []) {
        found |= this.jobs.known[part.job]?.bits ?? 0;
      }
    }
    return found !== all;
  }

  private isEmphasised(number: number): boolean {
    const job = this.job(number);
    return job !== undefined && (job.row.id === this.emphasisJob || job.team === this.emphasisTeam);
  }

  private bitsOfState(cell: number): number {
    const state = this.stateOf(cell);
    let known = this.stateBits.get(state);
    if (known === undefined) {
      known = stateBits(this.filter, state);
      this.stateBits.set(state, known);
    }
    return known;
  }
}

const isElsewhere = (a: NodeView, b: NodeView): boolean =>
  a.group !== b.group || a.cluster !== b.cluster || String(a.domains) !== String(b.domains);

export const colourIndex = (look: number): number => look & COLOUR;
