/** Rows and slices for tests: everything that a test does not name is empty. */

import type { FactView, JobView, LiveSlice, NodeView, Phase, Snapshot } from "../wire";

export function slice(given: Partial<LiveSlice> & { seq: number; prev: number }): LiveSlice {
  return {
    cluster: "atlas",
    audience: "public",
    at: 0,
    part: 1,
    parts: 1,
    jobs: [],
    gone_jobs: [],
    nodes: [],
    gone_nodes: [],
    queues: [],
    gone_queues: [],
    reservations: [],
    gone_reservations: [],
    facts: [],
    ...given,
  };
}

export function snapshot(given: Partial<Snapshot> = {}): Snapshot {
  const rows = { jobs: [], nodes: [], queues: [], reservations: [], unconfirmed_jobs: [] };
  return { seqs: {}, at: 0, telemetry: {}, ...rows, ...given };
}

export function jobRow(id: string, phase: Phase, given: Partial<JobView> = {}): JobView {
  return {
    id,
    name: id.toLowerCase(),
    team: "physics",
    principal: "ada",
    queue: "physics",
    kind: "batch",
    priority: 50,
    phase,
    cluster: "atlas",
    attempt: 0,
    gpu_milli: 1000,
    replicas: 1,
    nodes: [],
    slots: [],
    submitted_at: 0,
    queued_at: 0,
    placed_at: 0,
    running_at: 0,
    ended_at: 0,
    reason: "",
    detail: "",
    exit_code: 0,
    preflight: "",
    trace: "",
    seq: 0,
    min_replicas: 1,
    preemptible: true,
    preemptions: 0,
    ran_s: 0,
    checkpointed_at: 0,
    slice_ends_at: 0,
    reserved_at: 0,
    made_way_for: "",
    held: false,
    origin: "",
    retries: 0,
    retries_used: 0,
    node_losses: 0,
    preflight_failures: 0,
    lost_s: 0,
    lost_last_s: 0,
    excluded: [],
    failures_in_row: 0,
    measured_s: 0,
    busy_s: 0,
    total_run_time_s: 0,
    min_slice_s: 0,
    ...given,
  };
}

export function nodeRow(name: string, given: Partial<NodeView> = {}): NodeView {
  return {
    name,
    cluster: "atlas",
    gpu_model: "H100",
    gpus: 8,
    gpu_milli_held: 0,
    cpu_milli: 0,
    cpu_milli_held: 0,
    memory_mib: 0,
    memory_mib_held: 0,
    domains: [],
    usable: true,
    lost: false,
    reason: "",
    jobs: [],
    device_domains: [],
    group: "",
    reasons: [],
    condition: "",
    ...given,
  };
}

export function fact(seq: number, given: Partial<FactView> = {}): FactView {
  return {
    id: `fact-${seq}`,
    seq,
    time: seq * 1e6,
    stream: "LOG_atlas",
    cluster: "atlas",
    writer: "scheduler",
    kind: "job",
    subject_id: "A",
    name: "queued",
    causes: [],
    trace: "",
    body: "",
    ...given,
  };
}
