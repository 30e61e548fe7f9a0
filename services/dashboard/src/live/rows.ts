/**
 * Rows of the read model as they stand here: pure folding of snapshots, slices and readings.
 *
 * A job is told of by the federation's log until a cluster's log has it; the two logs count differently, so a row's
 * `seq` is compared only with one from the same log, and the cluster's row wins.
 *
 * Of several clusters, each log can tell of any job. Then a cluster's row counts only while the federation's newest row
 * names that cluster. Other rows wait, since the federation's may come later.
 */

import type {
  FactRow,
  JobRow,
  LiveSlice,
  LiveTelemetry,
  NodeRow,
  QueueRow,
  Reading,
  ReservationRow,
  Snapshot,
} from "../wire";
import { FED_CLUSTER, FED_STREAM, isOver } from "../wire";
import type { Changes } from "./changes";
import { FactRing } from "./facts";
import { JobNames } from "./names";

/** Jobs that have ended stay on the screen, the newest so many. */
export const ENDED_KEPT = 2_000;
/** Rows of each cluster that wait for the federation to name it, the newest so many. */
export const WAITING_KEPT = 5_000;

export class Rows {
  readonly jobs = new Map<string, JobRow>();
  readonly nodes = new Map<string, NodeRow>();
  readonly queues = new Map<string, QueueRow>();
  readonly reservations = new Map<string, ReservationRow>();
  readonly telemetry = new Map<string, (Reading | null)[]>();
  readonly facts = new FactRing();
  readonly names = new JobNames();
  readonly #fromFed = new Set<string>();
  readonly #ended = new Set<string>();
  /** Which cluster has each job that is shown, as the federation says; empty while none has. */
  readonly #assigned = new Map<string, string>();
  /** By cluster, rows of jobs that it does not have as far as is known here. */
  readonly #waiting = new Map<string, Map<string, JobRow>>();
  #isShared = false;

  /** Begin anew. Jobs that are known to have ended stay; those that the snapshot no longer has are gone. */
  reset(snapshot: Snapshot, changes: Changes): void {
    this.#isShared = Object.keys(snapshot.seqs).filter((name) => name !== FED_CLUSTER).length > 1;
    this.#waiting.clear();
    for (const id of [...this.jobs.keys()]) {
      if (!this.#ended.has(id)) {
        this.jobs.delete(id);
        this.#assigned.delete(id);
      }
    }
    this.#fromFed.clear();
    for (const row of snapshot.unconfirmed_jobs) {
      this.#wait(row, row.cluster);
    }
    for (const row of snapshot.jobs) {
      this.jobs.set(row.id, row);
      this.#assigned.set(row.id, row.cluster);
      this.names.keep(row.id, row.name);
      this.#ended.delete(row.id);
      if (row.cluster === "" || row.phase === "submitted") {
        this.#fromFed.add(row.id);
      }
    }
    replace(this.nodes, snapshot.nodes);
    replace(this.queues, snapshot.queues.map(whole));
    replace(this.reservations, snapshot.reservations);
    this.telemetry.clear();
    for (const [node, readings] of Object.entries(snapshot.telemetry)) {
      this.telemetry.set(node, readings);
    }
    for (const seen of [changes.jobs, changes.goneJobs, changes.nodes, changes.goneNodes, changes.telemetry]) {
      seen.clear();
    }
    changes.queues.clear();
    changes.reservations.clear();
    changes.reset = true;
  }

  apply(slice: LiveSlice, changes: Changes): void {
    for (const row of slice.jobs) {
      this.#job(row, slice.cluster, changes);
    }
    for (const id of slice.gone_jobs) {
      this.#goneJob(id, slice.cluster, changes);
    }
    put(this.nodes, slice.nodes, changes.nodes);
    for (const name of slice.gone_nodes) {
      if (this.nodes.delete(name)) {
        this.telemetry.delete(name);
        changes.nodes.delete(name);
        changes.goneNodes.add(name);
      }
    }
    put(this.queues, slice.queues.map(whole), changes.queues);
    take(this.queues, slice.gone_queues, changes.queues);
    put(this.reservations, slice.reservations, changes.reservations);
    take(this.reservations, slice.gone_reservations, changes.reservations);
  }

  /**
   * Keep the facts of a slice, also of one that is dropped or waits: what a snapshot covers tells no facts. Those that
   * are new are returned; each is known by its id.
   */
  hear(slice: LiveSlice, changes: Changes): FactRow[] {
    const heard = slice.facts.filter((fact) => this.facts.add(fact));
    this.learn(heard);
    for (const fact of heard) {
      changes.facts.push(fact);
    }
    return heard;
  }

  /** Keep the names in these facts, of jobs that the facts' cluster has. */
  learn(facts: readonly FactRow[]): void {
    for (const fact of facts) {
      if (!this.#isShared || fact.stream === FED_STREAM || this.#assigned.get(fact.subject_id) === fact.cluster) {
        this.names.learn(fact);
      }
    }
  }

  readings(telemetry: LiveTelemetry, changes: Changes): void {
    for (const [node, readings] of Object.entries(telemetry.nodes)) {
      this.telemetry.set(node, readings);
      changes.telemetry.add(node);
    }
  }

  clear(changes: Changes): void {
    for (const map of [this.jobs, this.nodes, this.queues, this.reservations, this.telemetry]) {
      map.clear();
    }
    this.facts.clear();
    this.#fromFed.clear();
    this.#ended.clear();
    this.#assigned.clear();
    this.#waiting.clear();
    changes.reset = true;
  }

  #job(row: JobRow, log: string, changes: Changes): void {
    if (!this.#isShared) {
      this.#take(row, log, changes);
    } else if (log === FED_CLUSTER) {
      this.#assign(row, changes);
    } else if (this.#assigned.get(row.id) === log) {
      this.#take(row, log, changes);
    } else {
      this.#wait(row, log);
    }
  }

  /** The federation says which cluster has the job: that one's row is shown, and before there is one, this row. */
  #assign(row: JobRow, changes: Changes): void {
    const known = this.jobs.get(row.id);
    const isOfCluster = known !== undefined && !this.#fromFed.has(row.id);
    this.#assigned.set(row.id, row.cluster);
    if (isOfCluster && known.cluster !== row.cluster) {
      this.#wait(known, known.cluster); // this row may be older than the snapshot that it was taken from
      this.#drop(row.id, changes);
      this.#assigned.set(row.id, row.cluster);
    }
    const waiting = this.#waiting.get(row.cluster);
    const own = waiting?.get(row.id);
    waiting?.delete(row.id);
    this.#take(own ?? row, own ? row.cluster : FED_CLUSTER, changes);
  }

  /** Keep a row that is not shown, for when the federation names its cluster. */
  #wait(row: JobRow, cluster: string): void {
    const rows = this.#waiting.get(cluster) ?? new Map<string, JobRow>();
    this.#waiting.set(cluster, rows);
    if ((rows.get(row.id)?.seq ?? 0) > row.seq) {
      return;
    }
    rows.delete(row.id);
    rows.set(row.id, row);
    if (rows.size > WAITING_KEPT) {
      const [oldest] = rows.keys();
      rows.delete(oldest ?? "");
    }
  }

  #take(row: JobRow, log: string, changes: Changes): void {
    const known = this.jobs.get(row.id);
    const isFed = log === FED_CLUSTER;
    if (known) {
      const knownIsFed = this.#fromFed.has(row.id);
      if (isFed && !knownIsFed) {
        return;
      }
      if (isFed === knownIsFed && row.seq < known.seq) {
        return;
      }
    }
    this.jobs.set(row.id, row);
    this.names.keep(row.id, row.name);
    if (isFed) {
      this.#fromFed.add(row.id);
    } else {
      this.#fromFed.delete(row.id);
    }
    changes.jobs.add(row.id);
    changes.goneJobs.delete(row.id);
    if (isOver(row.phase)) {
      this.#ends(row.id, changes);
    }
  }

  #ends(id: string, changes: Changes): void {
    this.#ended.add(id);
    if (this.#ended.size > ENDED_KEPT) {
      const [oldest] = this.#ended;
      if (oldest !== undefined) {
        this.#drop(oldest, changes);
      }
    }
  }

  #goneJob(id: string, log: string, changes: Changes): void {
    this.#waiting.get(log)?.delete(id);
    const known = this.jobs.get(id);
    if (!known) {
      return;
    }
    const isFromFed = this.#fromFed.has(id);
    const isFed = log === FED_CLUSTER;
    if (isFed ? isFromFed : !this.#isShared || (!isFromFed && known.cluster === log)) {
      this.#drop(id, changes);
    }
  }

  #drop(id: string, changes: Changes): void {
    this.jobs.delete(id);
    this.#ended.delete(id);
    this.#fromFed.delete(id);
    this.#assigned.delete(id);
    changes.jobs.delete(id);
    changes.goneJobs.add(id);
  }
}

/** A queue's live row says nothing of shares, which only the scheduler tells, when it is asked. */
function whole(row: QueueRow): QueueRow {
  return { ...row, share: row.share ?? 0, used_share: row.used_share ?? 0 };
}

interface Named {
  name: string;
}

function replace<Row extends Named>(map: Map<string, Row>, rows: Row[]): void {
  map.clear();
  for (const row of rows) {
    map.set(row.name, row);
  }
}

function put<Row extends Named>(map: Map<string, Row>, rows: Row[], changed: Set<string>): void {
  for (const row of rows) {
    map.set(row.name, row);
    changed.add(row.name);
  }
}

function take<Row>(map: Map<string, Row>, names: string[], changed: Set<string>): void {
  for (const name of names) {
    if (map.delete(name)) {
      changed.add(name);
    }
  }
}
