/** Rows and facts for tests: each as it would come, with what a test says different. */

import { fact, jobRow, nodeRow } from "../../live/samples";
import type { FactView, JobView, NodeView, QueueView, ScaleChoiceView, WhyAnswer } from "../../wire";

export const S = 1e9;
export const NOON_NS = 1_790_000_000 * S;

export function aJob(different: Partial<JobView> = {}): JobView {
  return jobRow("JOB00000000000000000000001", "queued", {
    name: "train",
    attempt: 1,
    gpu_milli: 8_000,
    submitted_at: NOON_NS,
    queued_at: NOON_NS,
    seq: 1,
    ...different,
  });
}

export function aFact(different: Partial<FactView> = {}): FactView {
  return fact(1, { id: "f1", time: NOON_NS, subject_id: "JOB00000000000000000000001", ...different });
}

export function aNode(different: Partial<NodeView> = {}): NodeView {
  return nodeRow("gpu-0001", {
    cpu_milli: 64_000,
    memory_mib: 1_048_576,
    domains: [["rack", "r1"]],
    ...different,
  });
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
