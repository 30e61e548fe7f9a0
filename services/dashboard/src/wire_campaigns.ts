/** Upgrade campaigns, after `muster.schemas.campaigns` and `muster.schemas.facts.upgrade`; compared as wire.ts is. */

import type { InstantNs } from "./wire";

export type CampaignPhase = "going" | "paused" | "stopped" | "aborting" | "ended";

export interface Window {
  days: number[];
  from_min: number;
  to_min: number;
}

export interface NodeSelection {
  nodes: string[];
  groups: string[];
  models: string[];
  labels: Record<string, string>;
}

export interface CampaignSpec {
  name: string;
  component: string;
  version: string;
  command: string[];
  select: NodeSelection;
  max_unavailable: string;
  parallel: number;
  per_rack: string | null;
  per_group: string | null;
  windows: Window[];
  failures_max: number;
  running: string;
  suite: string;
  takes_s: number;
  action_limit_s: number;
  roll_back: boolean;
  roll_back_to: string;
  starts_at: InstantNs;
  reason: string;
}

export interface CampaignEnded {
  aborted: boolean;
  done: number;
  failed: number;
  rolled_back: number;
  left_out: number;
  took_s: number;
  gpu_hours_lost: number;
  failed_nodes: string[];
  reason: string;
}

export interface TurnView {
  node: string;
  step: string;
  since: InstantNs;
  turn_at: InstantNs;
  waits_for: string;
  detail: string;
  attempt: number;
  cordoned_by: string;
}

export interface CampaignView {
  name: string;
  cluster: string;
  spec: CampaignSpec;
  principal: string;
  state: CampaignPhase;
  reason: string;
  accepted_at: InstantNs;
  ended_at: InstantNs;
  steps: Record<string, number>;
  next_at: InstantNs;
  ends_at: InstantNs;
  without_turn: number;
  out_of_use: number;
  out_of_use_most: number;
  gpu_hours_lost: number;
  failed_nodes: string[];
  ended: CampaignEnded | null;
  nodes: TurnView[];
}
