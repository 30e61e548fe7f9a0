/** Rows and facts for tests: each as it would come, with what a test says different. */

import type { FactView, JobView, NodeView, QueueView, ScaleChoiceView, WhyAnswer } from "../../wire";

export const S = 1e9;
export const NOON_NS = 1_790_000_000 * S;

export function aJob(different: Partial<JobView> = {}): JobView {
  return {
    id: "JOB00000000000000000000001",
    name: "train",
    team: "physics",
    principal: "ada",
    queue: "physics",
    kind: "batch",
    priority: 50,
    phase: "queued",
    cluster: "atlas",
    attempt: 1,
    gpu_milli: 8_000,
    replicas: 1,
    nodes: [],
    slots: [],
    submitted_at: NOON_NS,
    queued_at: NOON_NS,
    placed_at: 0,
    running_at: 0,
    ended_at: 0,
    reason: "",
    detail: "",
    exit_code: 0,
    preflight: "",
    trace: "",
    seq: 1,
    min_replicas: 1,
    preemptible: true,
    preemptions: 0,
    ran_s: 0,
    checkpointed_at: 0,
    slice_ends_at: 0,
    reserved_at: 0,
    made_way_for: "",
    held: false,
    ...different,
  };
}

export function aFact(different: Partial<FactView> = {}): FactView {
  return {
    id: "f1",
    seq: 1,
    time: NOON_NS,
    stream: "LOG_atlas",
    cluster: "atlas",
    writer: "scheduler",
    kind: "job",
    subject_id: "JOB00000000000000000000001",
    name: "queued",
    causes: [],
    trace: "",
    body: "",
    ...different,
  };
}

export function aNode(different: Partial<NodeView> = {}): NodeView {
  return {
    name: "gpu-0001",
    cluster: "atlas",
    gpu_model: "H100",
    gpus: 8,
    gpu_milli_held: 0,
    cpu_milli: 64_000,
    cpu_milli_held: 0,
    memory_mib: 1_048_576,
    memory_mib_held: 0,
    domains: [["rack", "r1"]],
    usable: true,
    lost: false,
    reason: "",
    jobs: [],
    device_domains: [],
    group: "",
    ...different,
  };
}

export function aQueue(different: Partial<QueueView> = {}): QueueView {
  return {
    name: "physics",
    cluster: "atlas",
    parent: null,
    gpu_milli_quota: null,
    gpu_milli_limit: null,
    gpu_milli_held: 0,
    jobs_queued: 0,
    jobs_running: 0,
    closed: false,
    quota: {},
    borrowing_limit: {},
    lending_limit: {},
    held: {},
    weight: 1,
    order: null,
    share: 0,
    used_share: 0,
    spec: null,
    ...different,
  };
}

export function aWhy(different: Partial<WhyAnswer> = {}): WhyAnswer {
  return {
    job: null,
    position: 0,
    waiting: 0,
    reason: "",
    detail: "",
    cure: "",
    expected_start_at: 0,
    expected_basis: "",
    ...different,
  };
}

export function aChoice(different: Partial<ScaleChoiceView> = {}): ScaleChoiceView {
  return {
    id: "scale-1",
    cluster: "atlas",
    name: "gpu-attach-chosen",
    case: 1,
    group: "",
    node: "gpu-0001",
    device_model: "H100",
    count: 2,
    jobs: [],
    devices: [],
    reason: "",
    alternatives: [],
    watts: 0,
    ready_s: 0,
    at: NOON_NS,
    ended_at: 0,
    outcome: "",
    detail: "",
    ...different,
  };
}
