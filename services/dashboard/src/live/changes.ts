/** What became of the store since subscribers were last called. */

import type { FactRow } from "../wire";

export interface Changes {
  /** Everything may be different: a snapshot was taken. The sets below are then empty, read the store anew. */
  reset: boolean;
  jobs: Set<string>;
  goneJobs: Set<string>;
  nodes: Set<string>;
  goneNodes: Set<string>;
  /** Nodes with new readings. */
  telemetry: Set<string>;
  queues: Set<string>;
  reservations: Set<string>;
  /** New ones, in the order of their coming; at most `FACTS_KEPT`. */
  facts: FactRow[];
}

export function noChanges(): Changes {
  return {
    reset: false,
    jobs: new Set(),
    goneJobs: new Set(),
    nodes: new Set(),
    goneNodes: new Set(),
    telemetry: new Set(),
    queues: new Set(),
    reservations: new Set(),
    facts: [],
  };
}
