/** What GPUs do for jobs and teams, after `muster.schemas.usage`; compared as wire.ts is. */

import type { InstantNs } from "./wire";

/** Sums over devices and time: GPU-seconds, joules, and the most of any one device. */
export interface Use {
  measured_s: number;
  busy_s: number;
  idle_s: number;
  sm_active_s: number;
  sm_measured_s: number;
  tensor_active_s: number;
  tensor_measured_s: number;
  dram_active_s: number;
  dram_measured_s: number;
  energy_j: number;
  memory_mib_max: number;
  memory_total_mib: number;
  power_w_max: number;
  temperature_c_max: number;
}

export interface DeviceUse {
  node: string;
  index: number;
  uuid: string;
  use: Use;
}

export interface UseColumn {
  at: InstantNs;
  gpus: number;
  busy_pct: number;
  sm_active_pct: number | null;
  tensor_active_pct: number | null;
  power_w: number;
  memory_mib_max: number;
}

export interface JobUse {
  job_id: string;
  is_known: boolean;
  is_over: boolean;
  team: string;
  queue: string;
  user: string;
  name: string;
  since: InstantNs;
  until: InstantNs;
  gpus: number;
  use: Use;
  energy_kwh: number;
  gpu_hours: number;
  idle_gpu_hours: number;
  busy_pct: number;
  sm_active_pct: number | null;
  tensor_active_pct: number | null;
  dram_active_pct: number | null;
  devices: DeviceUse[];
  column_s: number;
  columns: UseColumn[];
  advice: string[];
}

export interface TopRow {
  key: string;
  name: string;
  team: string;
  queue: string;
  user: string;
  jobs: number;
  gpus: number;
  idle: number;
  busy_pct: number;
  sm_active_pct: number | null;
  tensor_active_pct: number | null;
  memory_pct: number;
  power_w: number;
}

export interface ExporterCount {
  state: string;
  count: number;
  nodes: string[];
}

export interface Top {
  at: InstantNs;
  rows: TopRow[];
  total: number;
  gpus_expected: number;
  gpus_seen: number;
  held: number;
  idle_held: number;
  power_w: number;
  exporters: ExporterCount[];
}

export interface IdleGpu {
  node: string;
  index: number;
  uuid: string;
  model: string;
  job_id: string;
  name: string;
  team: string;
  queue: string;
  user: string;
  since: InstantNs;
  idle_s: number;
}

export interface IdleTeam {
  team: string;
  held: number;
  idle: number;
  jobs: number;
  idle_s: number;
}

export interface Idle {
  at: InstantNs;
  after_s: number;
  teams: IdleTeam[];
  gpus: IdleGpu[];
  total: number;
}

export interface EnergyRow {
  key: string;
  energy_kwh: number;
  gpu_hours: number;
  idle_gpu_hours: number;
}

export interface Energy {
  at: InstantNs;
  since: InstantNs;
  rows: EnergyRow[];
  total: number;
  energy_kwh: number;
}
