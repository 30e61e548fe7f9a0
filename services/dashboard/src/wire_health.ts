/** What health tells of nodes and GPUs, after `muster.schemas.conditions`; compared as wire.ts is. */

import type { InstantNs } from "./wire";

export type FaultClass = "note" | "application" | "degraded" | "fatal";
export type HealthPhase = "healthy" | "suspect" | "quarantined" | "repairing" | "verifying";

export interface FaultObserved {
  code: string;
  fault_class: FaultClass;
  scope: string;
  device: string;
  more_devices: string[];
  action: string | null;
  running: string;
  is_condition: boolean;
  count: number;
  at: InstantNs;
  detail: string;
  because: string;
  jobs: string[];
  teams: string[];
  store_only: boolean;
}

export interface OpenFault {
  told: FaultObserved;
  since: InstantNs;
  seen_at: InstantNs;
  count: number;
  fact: string;
}

export interface Condition {
  kind: string;
  name: string;
  node: string;
  phase: HealthPhase;
  since: InstantNs;
  began_at: InstantNs;
  because: string;
  faults: OpenFault[];
  attempt: number;
  action: string;
  needs_person: boolean;
  withheld: boolean;
  maintained_by: string[];
}

export interface EndedIllness {
  kind: string;
  name: string;
  node: string;
  codes: string[];
  began_at: InstantNs;
  ended_at: InstantNs;
  attempts: number;
}

export interface BrakeTripped {
  nodes: number;
  most: number;
  fleet: number;
  window_s: number;
  because: string;
}

export interface BrakeView {
  nodes: number;
  most: number;
  window_s: number;
  tripped: BrakeTripped | null;
  tripped_at: InstantNs;
}

export interface FaultCount {
  code: string;
  fault_class: FaultClass;
  count: number;
}

export interface FaultMark {
  code: string;
  fault_class: FaultClass;
  device: string;
  at: InstantNs;
  count: number;
  teams: string[];
  store_only: boolean;
}

export interface ConditionsAnswer {
  cluster: string;
  nodes: number;
  dry_run: boolean;
  conditions: Condition[];
  ended: EndedIllness[];
  brake: BrakeView;
  counts: FaultCount[];
  marks: FaultMark[];
  opted_out: boolean;
  known: boolean;
  at: InstantNs;
}
