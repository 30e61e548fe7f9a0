/** What the page knows while it is open: cells that follow the store, the pool that follows the composer, counts. */

import { type ReadonlySignal, signal } from "@preact/signals";
import { api, asProblem } from "../../api";
import { diagnostics } from "../../diagnostics";
import type { Changes } from "../../live/changes";
import { patiently } from "../../patience";
import { shownTheme } from "../../theme";
import { ofCluster } from "../../ui/clusters";
import type { DeviceView, FabricView, Reading } from "../../wire";
import type { Source } from "./arrangement";
import { FleetCells } from "./cells";
import { filterIn } from "./filter";
import { Flights } from "./flights";
import type { FleetMap, Selection } from "./map";
import { type ColourBy, TeamSlots } from "./palette";
import { isOf, isUnderWay, type Moving, Pool } from "./pool";
import { tally } from "./tally";

/** Counts, tips and details are brought up to date so often while something changes. */
const TICK_MS = 500;
/** Decoding the readings of more nodes than this fills a frame: cells are drawn in the next ones. */
const READ_AT_ONCE = 200;
/** After a fact told of a device the composer is asked again, at most so often; and now and then anyway. */
const POOL_AFTER_MS = 250;
const POOL_EVERY_MS = 15_000;
const POOL_MOVING_EVERY_MS = 2_000;
/** A composable node is shown with room for so many GPUs, since nobody tells how many it can have. */
const COMPOSABLE_PLACES = 8;
const HISTORY_MAX = 60;

/** What one cluster's composer lists; "" is the gateway's first. */
async function composerOf(
  cluster: string,
  { isPatient }: { isPatient: boolean },
): Promise<{ devices: DeviceView[]; fabrics: FabricView[] }> {
  const get = <T>(path: string): Promise<T> => {
    const ask = (): Promise<T> => api.get<T>(ofCluster(path, cluster));
    return isPatient ? patiently(ask) : ask();
  };
  const [{ devices }, { fabrics }] = await Promise.all([
    get<{ devices: DeviceView[] }>("/v1/devices"),
    get<{ fabrics: FabricView[] }>("/v1/fabrics"),
  ]);
  return { devices, fabrics };
}

function poolProblem(error: unknown, cluster = ""): string {
  const { title, cure } = asProblem(error);
  return `The contents of the pools${cluster && ` of ${cluster}`} are not known: ${title}. ${cure}`.trim();
}

export interface LiveStore extends Source {
  /** Names of the clusters. */
  clusters: ReadonlySignal<readonly string[]>;
  subscribe: (subscriber: (changes: Changes) => void) => () => void;
}

export interface Shown {
  by: ColourBy;
  q: string;
  /** Only of this one; "" is all. */
  cluster: string;
  job: string;
  team: string;
  selection: Selection | undefined;
}

export class Session {
  readonly cells: FleetCells;
  readonly pool = new Pool();
  readonly tick = signal(0);
  readonly poolVersion = signal(0);
  readonly poolProblem = signal("");
  readonly isFit = signal(true);
  readonly tally;
  map: FleetMap | undefined;
  private flights: Flights | undefined;
  private layer: HTMLElement | null = null;
  private shown: Shown | undefined;
  private isStale = false;
  private isPoolKnown = false;
  private poolTimer = 0;
  private isAsking = false;
  private seen: Reading[] = [];
  private seenOf = "";
  private seenKey = "";
  private readonly store: LiveStore;

  constructor(store: LiveStore) {
    this.store = store;
    this.cells = new FleetCells(new TeamSlots([...store.jobs.values()].map((job) => job.team)));
    this.tally = signal(tally(this.cells));
  }

  /** Begin to follow; returns how to end it. */
  open(): () => void {
    const leave = this.store.subscribe((changes) => this.changed(changes));
    const ticking = setInterval(() => diagnostics.work(() => this.ticked()), TICK_MS);
    const unlight = shownTheme.subscribe((theme) => {
      this.map?.setTheme(theme);
      if (this.flights) {
        this.flights.theme = theme;
      }
    });
    this.askPool(0);
    this.ticked();
    return () => {
      leave();
      unlight();
      clearInterval(ticking);
      clearTimeout(this.poolTimer);
      this.poolTimer = -1;
    };
  }

  /** How the page is set; cheap if nothing of it changed. */
  show(shown: Shown): void {
    const before = this.shown;
    this.shown = shown;
    this.cells.setColourBy(shown.by);
    if (before?.q !== shown.q || before.cluster !== shown.cluster) {
      this.cells.setFilter(filterIn(shown.cluster, shown.q));
      this.poolVersion.value++;
    }
    this.cells.emphasise({ job: shown.job, team: shown.team });
    if (before?.selection !== shown.selection) {
      this.map?.select(shown.selection);
      if (shown.selection && shown.selection.node !== before?.selection?.node) {
        this.map?.show(shown.selection.node);
      }
      this.isStale = true;
      this.remember();
    }
    this.map?.paint();
  }

  mountMap(map: FleetMap): () => void {
    this.map = map;
    map.select(this.shown?.selection);
    if (this.shown?.selection) {
      map.show(this.shown.selection.node);
    }
    this.startFlights();
    return () => {
      this.flights?.close();
      this.flights = undefined;
      this.map = undefined;
    };
  }

  mountFlights(layer: HTMLElement | null): void {
    this.layer = layer;
    this.startFlights();
  }

  underWay(): Moving[] {
    const now = performance.now();
    const isShown = isOf(this.shown?.cluster ?? "");
    return [...this.pool.moving.values()].filter(
      (moving) => moving.leg !== "node" && isShown(moving) && isUnderWay(moving, now),
    );
  }

  /** What the selected GPU read lately, newest last. */
  history(): readonly Reading[] {
    return this.seen;
  }

  private startFlights(): void {
    const canvas = this.layer?.querySelector<HTMLCanvasElement>(".fleet-flights");
    if (!this.flights && canvas && this.map) {
      const frame = (draw: () => void): void => diagnostics.frame(draw);
      this.flights = new Flights(canvas, { pool: this.pool, map: this.map, cells: this.cells, frame });
      this.flights.theme = shownTheme.peek();
      this.flights.wake();
    }
  }

  private changed(changes: Changes): void {
    this.isStale = true;
    if (this.cells.apply(this.store, changes)) {
      this.map?.arranged();
      this.hint();
    } else {
      this.map?.paint({ isSoon: changes.telemetry.size > READ_AT_ONCE });
    }
    if (changes.telemetry.has(this.seenOf)) {
      this.remember();
    }
    if (this.pool.heard(changes.facts, performance.now())) {
      this.askPool(POOL_AFTER_MS);
      this.poolMoved();
    } else if (changes.reset) {
      this.askPool(POOL_AFTER_MS);
    }
  }

  private ticked(): void {
    if (this.isStale && !document.hidden) {
      this.isStale = false;
      this.tick.value++;
      this.tally.value = tally(this.cells);
    }
    const now = performance.now();
    const before = this.pool.moving.size;
    this.pool.sweep(now);
    if (this.pool.moving.size !== before || this.pool.isBusy(now)) {
      this.poolVersion.value++;
    }
  }

  /** Keep what the selected GPU reads; begin anew when another one is selected. */
  private remember(): void {
    const selection = this.shown?.selection;
    const key = selection ? `${selection.node}/${selection.place}` : "";
    if (selection?.node !== this.seenOf || key !== this.seenKey) {
      this.seen = [];
      this.seenOf = selection?.node ?? "";
      this.seenKey = key;
    }
    const reading = selection && this.store.telemetry.get(selection.node)?.[selection.place];
    if (reading) {
      this.seen = [...this.seen, reading].slice(-HISTORY_MAX);
    }
  }

  private askPool(afterMs: number): void {
    if (this.poolTimer === -1) {
      return;
    }
    clearTimeout(this.poolTimer);
    this.poolTimer = window.setTimeout(() => void this.fetchPool(), afterMs);
  }

  private async fetchPool(): Promise<void> {
    if (this.isAsking || document.hidden) {
      this.askPool(POOL_AFTER_MS * 4);
      return;
    }
    this.isAsking = true;
    try {
      this.poolProblem.value = await this.askComposers();
    } finally {
      this.isAsking = false;
    }
    this.poolMoved();
    this.askPool(this.pool.isBusy(performance.now()) ? POOL_MOVING_EVERY_MS : POOL_EVERY_MS);
  }

  /** List what the composers of all clusters tell; returns why something is not known, "" if everything is. */
  private async askComposers(): Promise<string> {
    const clusters = this.store.clusters.peek();
    const isOfSeveral = clusters.length > 1;
    if (isOfSeveral !== this.pool.isOfSeveral) {
      this.pool.isOfSeveral = isOfSeveral;
      this.pool.moving.clear(); // they were known by other names
      this.isPoolKnown = false;
    }
    const asked = isOfSeveral ? clusters : [""];
    const isFirst = !this.isPoolKnown;
    const told = await Promise.allSettled(asked.map((cluster) => composerOf(cluster, { isPatient: isFirst })));
    const listed = told.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    if (listed.length > 0) {
      const devices = listed.flatMap((one) => one.devices);
      const fabrics = listed.flatMap((one) => one.fabrics);
      this.pool.listed(devices, fabrics, performance.now(), isFirst);
      this.isPoolKnown = true;
    }
    const problems = told.flatMap((one, at) => (one.status === "rejected" ? [poolProblem(one.reason, asked[at])] : []));
    return problems.join(" ");
  }

  private poolMoved(): void {
    this.poolVersion.value++;
    this.hint();
    this.flights?.wake();
  }

  /** Places that composable nodes have, whether or not a GPU is there now. */
  private hint(): void {
    const attached = this.pool.placesByNode();
    const groups = new Set([...attached.keys()].map((node) => this.store.nodes.get(node)?.group).filter(Boolean));
    const hints = new Map<string, number>();
    for (const node of this.store.nodes.values()) {
      const isComposable =
        node.group !== "" && (groups.has(node.group) || node.gpus === 0) && this.pool.fabrics.length > 0;
      if (isComposable) {
        hints.set(node.name, Math.max(COMPOSABLE_PLACES, attached.get(node.name) ?? 0));
      }
    }
    if (this.cells.setHints(hints, this.store)) {
      this.map?.arranged();
    }
  }
}
