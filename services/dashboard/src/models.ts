// Written by `python -m muster_tools.dashboard_types`; the models of `muster.schemas` say what each field means.

/** Nanoseconds since 1970. They lose their last three digits in a JavaScript number, which no screen shows. */
export type InstantNs = number;

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

export type AttachmentPhase = "requested" | "attaching" | "attached" | "visible" | "online" | "withholding" | "detaching" | "detached" | "failed";

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

export type BreakerState = "closed" | "open" | "half-open";

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

export interface CampaignSpec {
  name: string;
  component: NodeAction;
  version: string;
  command: string[];
  select: NodeSelection;
  max_unavailable: string;
  parallel: number;
  per_rack: string | null;
  per_group: string | null;
  windows: Window[];
  failures_max: number;
  running: RunningJobs;
  suite: string;
  takes_s: number;
  action_limit_s: number;
  roll_back: boolean;
  roll_back_to: string;
  starts_at: InstantNs;
  reason: string;
}

export interface CampaignView {
  name: string;
  cluster: string;
  spec: CampaignSpec;
  principal: string;
  state: string;
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

export interface Choice {
  cluster: string;
  queue_max: number | null;
  expected_start_s_max: number | null;
}

export type ClusterPhase = "active" | "draining" | "drained" | "lost";

export interface ClusterView {
  name: string;
  state: string;
  backend: string;
  version: string;
  devices: string;
  sharing: string;
  served: string[];
  lacking: string[];
  namespace: string;
  nodes: number;
  gpu_milli_total: number;
  gpu_milli_free: number;
  jobs_queued: number;
  jobs_running: number;
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

export type Defragment = "never" | "advise" | "move";

export interface DeviceUse {
  node: string;
  index: number;
  uuid: string;
  use: Use;
}

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
  origin: Origin;
  request: string;
  attempt: number;
  error: string;
  holders: string[];
  since: InstantNs;
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

export interface Energy {
  at: InstantNs;
  since: InstantNs;
  rows: EnergyRow[];
  total: number;
  energy_kwh: number;
}

export interface EnergyRow {
  key: string;
  energy_kwh: number;
  gpu_hours: number;
  idle_gpu_hours: number;
}

export interface ExporterCount {
  state: string;
  count: number;
  nodes: string[];
}

export interface FabricView {
  name: string;
  cluster: string;
  driver: string;
  pool: PoolModel[];
  breaker: BreakerState;
  error: string;
  retry_at: InstantNs;
  in_flight: number;
  limit: number;
  orphans: number;
  surveyed_at: InstantNs;
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

export type FairShareRule = "final-share" | "initial-share";

export type FaultClass = "note" | "application" | "degraded" | "fatal";

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

export interface FaultObserved {
  code: string;
  fault_class: FaultClass;
  scope: FaultScope;
  device: string;
  more_devices: string[];
  action: NodeAction | null;
  running: RunningJobs;
  is_condition: boolean;
  count: number;
  at: InstantNs;
  detail: string;
  because: string;
  jobs: string[];
  teams: string[];
  store_only: boolean;
}

export type FaultScope = "node" | "device";

export interface FederationView {
  clusters: MemberView[];
  waiting: WaitingView[];
}

export interface Figure {
  name: string;
  value: number;
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

export type HealthPhase = "healthy" | "suspect" | "quarantined" | "repairing" | "verifying";

export interface Idle {
  at: InstantNs;
  after_s: number;
  teams: IdleTeam[];
  gpus: IdleGpu[];
  total: number;
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

export type JobKind = "batch" | "interactive" | "mpi" | "inference";

export interface JobReadings {
  job_id: string;
  at: InstantNs[];
  devices: Record<string, ([number, number, number, number] | null)[]>;
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
  measured_s: number;
  busy_s: number;
  total_run_time_s: number;
  min_slice_s: number;
}

export interface Lister {
  client: string;
  known_by: string;
  resource: string;
  lists_per_minute: number;
  lists: number;
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

export interface LiveSlice {
  cluster: string;
  audience: string;
  seq: number;
  prev: number;
  at: InstantNs;
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
  nodes: Record<string, ([number, number, number, number] | null)[]>;
}

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

export interface MemoryPoint {
  at: InstantNs;
  memory_mib: number;
}

export type NodeAction = "reset" | "reboot" | "replace" | "driver" | "device-plugin" | "kubelet" | "os" | "command";

export interface NodeReason {
  what: string;
  by: string;
  reason: string;
  request_id: string;
  device: string;
  running: RunningJobs | null;
  since: InstantNs;
  from_at: InstantNs;
  is_held: boolean;
}

export interface NodeSelection {
  nodes: string[];
  groups: string[];
  models: string[];
  labels: Record<string, string>;
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
  domains: [string, string][];
  usable: boolean;
  lost: boolean;
  reason: string;
  jobs: string[];
  device_domains: [string, number[]][];
  group: string;
  reasons: NodeReason[];
  condition: string;
}

export interface OpenFault {
  told: FaultObserved;
  since: InstantNs;
  seen_at: InstantNs;
  count: number;
  fact: string;
}

export type Origin = "request" | "scaler" | "found" | "orphan";

export interface OutputLine {
  at: InstantNs;
  group: number;
  replica: number;
  attempt: number;
  text: string;
}

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
  end: string;
}

export type OverSlice = "never" | "starving";

export type Phase = "submitted" | "queued" | "placed" | "running" | "stopping" | "succeeded" | "failed" | "cancelled" | "timed-out";

export interface PoolModel {
  type: string;
  model: string;
  free: number;
  attached: number;
}

export interface PreemptionPolicy {
  within_queue: WithinQueue | null;
  reclaim: Reclaim | null;
  fair_share: FairShareRule[] | null;
  over_slice: OverSlice | null;
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

export type QueueOrder = "fair" | "fifo";

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
  order: QueueOrder | null;
  half_life_s: number | null;
  starving_after_s: number | null;
  run_time_default_s: number | null;
  run_time_max_s: number | null;
  min_slice_default_s: number | null;
  min_slice_max_s: number | null;
  preemption: PreemptionPolicy;
  defragment: Defragment | null;
  user_template: QueueTemplate | null;
  teams: string[];
  priority_max: number | null;
}

export interface QueueTemplate {
  quota: Record<string, number>;
  borrowing_limit: Record<string, number>;
  lending_limit: Record<string, number>;
  weight: number;
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
  order: QueueOrder | null;
  share: number;
  used_share: number;
  spec: QueueSpec | null;
}

export type Reclaim = "never" | "lower-priority" | "any";

export type Repeat = "once" | "weekly";

export interface ReservationSpec {
  name: string;
  nodes: string[];
  gpus: number;
  gpu_model: string;
  queue: string | null;
  job_id: string | null;
  starts_at: InstantNs;
  duration_s: number;
  repeat: Repeat;
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

export type Role = "viewer" | "submitter" | "operator" | "admin";

export interface RoutesView {
  policy: RoutingPolicy;
  version: number;
  by: string;
}

export interface RoutingPolicy {
  rules: RoutingRule[];
  teams: TeamLimit[];
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

export type RunningJobs = "finish" | "move" | "requeue";

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

export interface Slot {
  group: number;
  replica: number;
  node: string;
  devices: number[];
  gpu_milli: number;
  gpus: number;
  places: number[];
}

export interface Snapshot {
  seqs: Record<string, Record<string, number>>;
  at: InstantNs;
  jobs: JobView[];
  nodes: NodeView[];
  queues: QueueView[];
  reservations: ReservationView[];
  telemetry: Record<string, ([number, number, number, number] | null)[]>;
  unconfirmed_jobs: JobView[];
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

export interface StoredKind {
  resource: string;
  objects: number;
  bytes: number;
}

export interface TeamLimit {
  team: string;
  gpus: number | null;
  weight: number;
}

export interface TokenRecord {
  principal: string;
  role: Role;
  teams: string[];
  expires_at_s: number | null;
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

export interface UseColumn {
  at: InstantNs;
  gpus: number;
  busy_pct: number;
  sm_active_pct: number | null;
  tensor_active_pct: number | null;
  power_w: number;
  memory_mib_max: number;
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

export interface Window {
  days: number[];
  from_min: number;
  to_min: number;
}

export type WithinQueue = "never" | "lower-priority" | "lower-or-newer-equal-priority";
