/**
 * The one store of what is live. Rows are changed as messages come; who draws is told at most once per frame.
 *
 * Read `store.jobs` and its like freely, change nothing. Components that show few rows read `store.version.jobs.value`
 * and so draw again when jobs changed; canvases `subscribe` and draw what changed.
 */

import { batch, type Signal, signal } from "@preact/signals";
import { diagnostics } from "../diagnostics";
import type { FactRow, LiveSlice, LiveTelemetry, Me, Snapshot } from "../wire";
import { bound, type Changes, noChanges } from "./changes";
import { Rows } from "./rows";

export type { Changes } from "./changes";

export type ConnectionState =
  | { kind: "out" }
  | { kind: "joining"; why: string }
  | { kind: "live" }
  | { kind: "stale"; sinceMs: number }
  | { kind: "offline"; why: string; retryAtMs: number };

export type Kind = "jobs" | "nodes" | "queues" | "reservations" | "telemetry" | "facts";

type Subscriber = (changes: Changes) => void;

/** Whose facts come beside those of clusters, and which is none. */
const FEDERATION = "fed";

class Store {
  readonly #rows = new Rows();
  readonly jobs = this.#rows.jobs;
  readonly nodes = this.#rows.nodes;
  readonly queues = this.#rows.queues;
  readonly reservations = this.#rows.reservations;
  readonly telemetry = this.#rows.telemetry;
  readonly facts = this.#rows.facts;
  readonly version: Record<Kind, Signal<number>> = {
    jobs: signal(0),
    nodes: signal(0),
    queues: signal(0),
    reservations: signal(0),
    telemetry: signal(0),
    facts: signal(0),
  };
  readonly connection = signal<ConnectionState>({ kind: "out" });
  readonly me = signal<Me | null>(null);
  /** Names of the clusters, the one first that the gateway asks if none is named; none before a snapshot was taken. */
  readonly clusters = signal<readonly string[]>([]);
  /** Whether a snapshot was ever taken: before that an empty map means "not known yet", not "none". */
  readonly filled = signal(false);
  #changes = noChanges();
  #subscribers = new Set<Subscriber>();
  #scheduled = false;

  /** Be called once per frame in which something changed; first now, with everything. Returns how to end that. */
  subscribe(subscriber: Subscriber): () => void {
    this.#subscribers.add(subscriber);
    subscriber({ ...noChanges(), reset: true });
    return () => this.#subscribers.delete(subscriber);
  }

  /** A job's name, also when its row is gone; "" if it was never seen. */
  jobName(id: string): string {
    return this.#rows.names.get(id);
  }

  /** Facts from before, as the API tells them: they are not kept here, but the names in them are. */
  learn(facts: readonly FactRow[]): void {
    this.#rows.learn(facts);
  }

  reset(snapshot: Snapshot): void {
    this.clusters.value = Object.keys(snapshot.seqs).filter((name) => name !== FEDERATION);
    this.#rows.reset(snapshot, this.#changes);
    this.#schedule();
  }

  apply(slice: LiveSlice): void {
    this.#rows.apply(slice, this.#changes);
    this.#schedule();
  }

  /** Take the facts of a slice, whatever becomes of its rows. */
  hear(slice: LiveSlice): void {
    const heard = this.#rows.hear(slice, this.#changes);
    if (heard.length > 0) {
      diagnostics.arrived(heard);
      this.#schedule();
    }
  }

  readings(telemetry: LiveTelemetry): void {
    this.#rows.readings(telemetry, this.#changes);
    this.#schedule();
  }

  clear(): void {
    this.#rows.clear(this.#changes);
    this.me.value = null;
    this.clusters.value = [];
    this.filled.value = false;
    this.#schedule();
  }

  #schedule(): void {
    bound(this.#changes);
    if (!this.#scheduled) {
      this.#scheduled = true;
      requestAnimationFrame(() => this.#tell());
    }
  }

  #tell(): void {
    this.#scheduled = false;
    const { reset, facts } = this.#changes;
    const changes = reset ? { ...noChanges(), reset, facts } : this.#changes;
    this.#changes = noChanges();
    diagnostics.frame(() => {
      batch(() => {
        if (changes.reset) {
          this.filled.value = this.connection.peek().kind !== "out";
        }
        for (const kind of changedKinds(changes)) {
          this.version[kind].value += 1;
        }
      });
      for (const subscriber of this.#subscribers) {
        try {
          subscriber(changes);
        } catch (error) {
          reportError(error); // one that breaks takes nothing from the others
        }
      }
    });
  }
}

function changedKinds(changes: Changes): Kind[] {
  const sizes: [Kind, number][] = [
    ["jobs", changes.jobs.size + changes.goneJobs.size],
    ["nodes", changes.nodes.size + changes.goneNodes.size],
    ["queues", changes.queues.size],
    ["reservations", changes.reservations.size],
    ["telemetry", changes.telemetry.size],
    ["facts", changes.facts.length],
  ];
  return sizes.filter(([, size]) => changes.reset || size > 0).map(([kind]) => kind);
}

export const store = new Store();
