/** What the gateway tells of clusters and their API servers, after `muster.schemas.apiserver`; compared as wire.ts is. */

import type { InstantNs } from "./wire";

export interface Figure {
  name: string;
  value: number;
}

export interface MemoryPoint {
  at: InstantNs;
  memory_mib: number;
}

export interface ApiServerReplica {
  name: string;
  version: string;
  started_at: InstantNs;
  memory_mib: number;
  cpu_cores: number;
  in_flight: number;
  in_flight_mutating: number;
  requests_per_s: number;
  lists_per_s: number;
  watches: number;
  memory: MemoryPoint[];
  seen_at: InstantNs;
  error: string;
}

export interface Lister {
  client: string;
  known_by: string;
  resource: string;
  lists_per_minute: number;
  lists: number;
}

export interface FlowLevel {
  name: string;
  seats: number;
  wanted: number;
  executing: number;
  queued: number;
  rejected: number;
  rejected_per_minute: number;
  wait_ms_p99: number;
  is_exempt: boolean;
}

export interface StoredKind {
  resource: string;
  objects: number;
  bytes: number;
}

export interface StandingAdvice {
  code: string;
  about: string;
  severity: string;
  detail: string;
  cure: string;
  figures: Figure[];
  id: string;
  since: InstantNs;
}

export interface ApiServerReport {
  cluster: string;
  guarded: boolean;
  applies: boolean;
  at: InstantNs;
  replicas: ApiServerReplica[];
  memory_skew: number;
  listers: Lister[];
  levels: FlowLevel[];
  kinds: StoredKind[];
  advices: StandingAdvice[];
  lacking: string[];
}

export interface ClusterView {
  name: string;
  state: string;
  backend: string;
  version: string;
  devices: string;
  sharing: string;
  served: string[];
  lacking: string[];
  nodes: number;
  gpu_milli_total: number;
  gpu_milli_free: number;
  jobs_queued: number;
  jobs_running: number;
}
