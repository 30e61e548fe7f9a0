/**
 * What the gateway answers and the projector publishes, after the Python models of `muster.schemas`.
 *
 * An interface here has the name and the fields of its model; tests/unit/test_dashboard_wire.py compares them. Instants are
 * nanoseconds since 1970 and lose their last three digits in a JavaScript number, which no screen shows.
 */

export type InstantNs = number;

export type Phase =
  | "submitted"
  | "queued"
  | "placed"
  | "running"
  | "stopping"
  | "succeeded"
  | "failed"
  | "cancelled"
  | "timed-out";

export type JobKind = "batch" | "interactive" | "mpi" | "inference";
export type Role = "viewer" | "submitter" | "operator" | "admin";

/** One GPU: utilisation in per cent, temperature in °C, memory used in MiB, power in W. */
export type Reading = [utilPct: number, tempC: number, memoryMib: number, powerW: number];

export interface Slot {
  group: number;
  replica: number;
  node: string;
  devices: number[];
  gpu_milli: number;
  gpus: number;
  places: number[];
}

export interface JobView {
  id: string;
  name: string;
  team: string;
  principal: string;
  queue: string;
  kind: JobKind;
  priority: number;
  phase: Phase;
  cluster: string;
  attempt: number;
  gpu_milli: number;
  replicas: number;
  nodes: string[];
  slots: Slot[];
  submitted_at: InstantNs;
  queued_at: InstantNs;
  placed_at: InstantNs;
  running_at: InstantNs;
  ended_at: InstantNs;
  reason: string;
  detail: string;
  exit_code: number;
  preflight: string;
  trace: string;
  seq: number;
  min_replicas: number;
  preemptible: boolean;
  preemptions: number;
  ran_s: number;
  checkpointed_at: InstantNs;
  slice_ends_at: InstantNs;
  reserved_at: InstantNs;
  made_way_for: string;
  held: boolean;
  origin: string;
  retries: number;
  retries_used: number;
  node_losses: number;
  preflight_failures: number;
  lost_s: number;
  lost_last_s: number;
  excluded: string[];
  failures_in_row: number;
}

export interface NodeReason {
  what: string;
  by: string;
  reason: string;
  request_id: string;
  device: string;
  running: string | null;
  since: number;
  from_at: number;
  is_held: boolean;
}

export interface NodeView {
  name: string;
  cluster: string;
  gpu_model: string;
  gpus: number;
  gpu_milli_held: number;
  cpu_milli: number;
  cpu_milli_held: number;
  memory_mib: number;
  memory_mib_held: number;
  domains: [level: string, name: string][];
  usable: boolean;
  lost: boolean;
  reason: string;
  jobs: string[];
  device_domains: [name: string, devices: number[]][];
  group: string;
  reasons: NodeReason[];
  condition: string;
}

export interface PreemptionPolicy {
  within_queue: string | null;
  reclaim: string | null;
  fair_share: string[] | null;
  over_slice: string | null;
}

export interface QueueTemplate {
  quota: Record<string, number>;
  borrowing_limit: Record<string, number>;
  lending_limit: Record<string, number>;
  weight: number;
}

export interface QueueSpec {
  name: string;
  parent: string | null;
  gpu_milli_quota: number | null;
  gpu_milli_limit: number | null;
  weight: number;
  closed: boolean;
  quota: Record<string, number>;
  borrowing_limit: Record<string, number>;
  lending_limit: Record<string, number>;
  order: "fair" | "fifo" | null;
  half_life_s: number | null;
  starving_after_s: number | null;
  run_time_default_s: number | null;
  run_time_max_s: number | null;
  min_slice_default_s: number | null;
  min_slice_max_s: number | null;
  preemption: PreemptionPolicy;
  defragment: string | null;
  user_template: QueueTemplate | null;
  teams: string[];
  priority_max: number | null;
}

export interface QueueView {
  name: string;
  cluster: string;
  parent: string | null;
  gpu_milli_quota: number | null;
  gpu_milli_limit: number | null;
  gpu_milli_held: number;
  jobs_queued: number;
  jobs_running: number;
  closed: boolean;
  quota: Record<string, number>;
  borrowing_limit: Record<string, number>;
  lending_limit: Record<string, number>;
  held: Record<string, number>;
  weight: number;
  order: "fair" | "fifo" | null;
  share: number;
  used_share: number;
  spec: QueueSpec | null;
}

export interface ReservationSpec {
  name: string;
  nodes: string[];
  gpus: number;
  gpu_model: string;
  queue: string | null;
  job_id: string | null;
  starts_at: InstantNs;
  duration_s: number;
  repeat: "once" | "weekly";
  reason: string;
}

export interface ReservationView {
  name: string;
  cluster: string;
  spec: ReservationSpec;
  active: boolean;
  next_starts_at: InstantNs;
  held_gpu_milli: number;
}

export interface FactView {
  id: string;
  seq: number;
  time: InstantNs;
  stream: string;
  cluster: string;
  writer: string;
  kind: string;
  subject_id: string;
  name: string;
  causes: string[];
  trace: string;
  body: string;
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  field: string;
  cure: string;
  holder: string;
  retry_after_s: number;
}

export interface LiveSlice {
  cluster: string;
  audience: string;
  seq: number;
  prev: number;
  at: InstantNs;
  /** Which of the slices of one moment this is, from 1. */
  part: number;
  parts: number;
  jobs: JobView[];
  gone_jobs: string[];
  nodes: NodeView[];
  gone_nodes: string[];
  queues: QueueView[];
  gone_queues: string[];
  reservations: ReservationView[];
  gone_reservations: string[];
  facts: FactView[];
}

export interface LiveTelemetry {
  cluster: string;
  at: InstantNs;
  nodes: Record<string, (Reading | null)[]>;
}

export interface Snapshot {
  seqs: Record<string, Record<string, number>>;
  at: InstantNs;
  jobs: JobView[];
  nodes: NodeView[];
  queues: QueueView[];
  reservations: ReservationView[];
  telemetry: Record<string, (Reading | null)[]>;
  unconfirmed_jobs: JobView[];
}

export interface LiveCredential {
  url: string;
  jwt: string;
  seed: string;
  inbox_prefix: string;
  expires_at_s: number;
  clusters: string[];
  audiences: string[];
}

export interface OutputLine {
  at: InstantNs;
  group: number;
  replica: number;
  attempt: number;
  text: string;
}

/** What one replica printed since its last message: body of `view.<cluster>.<team>.output.<job>`. */
export interface OutputLines {
  job_id: string;
  attempt: number;
  at: InstantNs;
  group: number;
  replica: number;
  lines: string[];
}

export interface OutputPage {
  job_id: string;
  lines: OutputLine[];
}

export interface JobReadings {
  job_id: string;
  at: InstantNs[];
  devices: Record<string, (Reading | null)[]>;
}

export interface WhyAnswer {
  job: JobView | null;
  position: number;
  waiting: number;
  reason: string;
  detail: string;
  cure: string;
  expected_start_at: InstantNs;
  expected_basis: string;
}

export interface Alternative {
  what: string;
  fits: boolean;
  chosen: boolean;
  gpus: number;
  nodes: number;
  watts: number;
  ready_s: number;
  detail: string;
}

export interface ScaleChoiceView {
  id: string;
  cluster: string;
  name: string;
  case: number;
  group: string;
  node: string;
  device_model: string;
  count: number;
  jobs: string[];
  devices: string[];
  reason: string;
  alternatives: Alternative[];
  watts: number;
  ready_s: number;
  at: InstantNs;
  ended_at: InstantNs;
  outcome: string;
  detail: string;
}

export type AttachmentPhase =
  | "requested"
  | "attaching"
  | "attached"
  | "visible"
  | "online"
  | "withholding"
  | "detaching"
  | "detached"
  | "failed";

export interface DeviceView {
  id: string;
  cluster: string;
  type: string;
  model: string;
  node: string;
  fabric: string;
  device_uuid: string;
  device_id: string;
  phase: AttachmentPhase;
  origin: "request" | "scaler" | "found" | "orphan";
  request: string;
  attempt: number;
  error: string;
  holders: string[];
  since: InstantNs;
}

export interface PoolModel {
  type: string;
  model: string;
  free: number;
  attached: number;
}

export interface FabricView {
  name: string;
  cluster: string;
  driver: string;
  pool: PoolModel[];
  breaker: "closed" | "open" | "half-open";
  error: string;
  retry_at: InstantNs;
  in_flight: number;
  limit: number;
  orphans: number;
  surveyed_at: InstantNs;
}

/** Answer of `GET /v1/me`. */
export interface TokenRecord {
  principal: string;
  role: Role;
  teams: string[];
  expires_at_s: number | null;
}

export type JobRow = JobView;
export type NodeRow = NodeView;
export type QueueRow = QueueView;
export type ReservationRow = ReservationView;
export type FactRow = FactView;
export type Me = TokenRecord;

export const PUBLIC_AUDIENCE = "public";
/** Stands for the federation's log where a cluster is named. */
export const FED_CLUSTER = "fed";
export const FED_STREAM = "FED";

const ENDED: ReadonlySet<Phase> = new Set(["succeeded", "failed", "cancelled", "timed-out"]);

/** Whether nothing more will happen to a job in that phase. */
export function isOver(phase: Phase): boolean {
  return ENDED.has(phase);
}
