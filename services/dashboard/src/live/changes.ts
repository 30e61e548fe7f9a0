/** What became of the store since subscribers were last called. */

import type { FactRow } from "../wire";
import { FACTS_KEPT } from "./facts";

export interface Changes {
  /** Everything may be different: a snapshot was taken. The sets below are then empty: read the store anew. */
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

/** Rows that came and went without anybody being told, while the tab is hidden and draws nothing. */
export const GONE_MAX = 10_000;

/** Keep what is to be told within bounds: beyond them it is told that everything may be different. */
export function bound(changes: Changes): void {
  if (changes.goneJobs.size + changes.goneNodes.size > GONE_MAX) {
    changes.reset = true;
    for (const names of [changes.jobs, changes.goneJobs, changes.nodes, changes.goneNodes, changes.telemetry]) {
      names.clear();
    }
  }
  if (changes.facts.length > FACTS_KEPT) {
    changes.facts.splice(0, changes.facts.length - FACTS_KEPT);
  }
}
