/** Clusters of a federation and where jobs go, after `muster.schemas.members` and `.routing`; compared as wire.ts is. */

import type { InstantNs, JobKind } from "./wire";

export type ClusterPhase = "active" | "draining" | "drained" | "lost";

export interface MemberView {
  name: string;
  state: ClusterPhase;
  since: InstantNs;
  to: string[];
  by: string;
  reason: string;
  jobs: number;
  gpus: number;
  nodes: number;
  gpus_total: number;
  gpus_free: number;
  jobs_queued: number;
  jobs_running: number;
  lost_after_s: number;
  heard_at: InstantNs;
  gives_up_at: InstantNs;
}

export interface WaitingView {
  team: string;
  rule: string;
  gpus: number;
  jobs: number;
  oldest_at: InstantNs;
  reason: string;
  detail: string;
  leaving: string;
}

export interface FederationView {
  clusters: MemberView[];
  waiting: WaitingView[];
}

export interface Choice {
  cluster: string;
  queue_max: number | null;
  expected_start_s_max: number | null;
}

export interface RoutingRule {
  name: string;
  teams: string[];
  users: string[];
  kinds: JobKind[];
  labels: Record<string, string>;
  models: string[];
  gpus_min: number;
  gpus_max: number | null;
  clusters: Choice[];
  waits: boolean;
}

export interface TeamLimit {
  team: string;
  gpus: number | null;
  weight: number;
}

export interface RoutingPolicy {
  rules: RoutingRule[];
  teams: TeamLimit[];
}

export interface RoutesView {
  policy: RoutingPolicy;
  version: number;
  by: string;
}
