import { describe, expect, it } from "vitest";
import type { ClusterView, MemberView, RoutingRule } from "../../wire";
import { matchWords, routeWords, seenClusters, stateWords } from "./federation";

function member(name: string, given: Partial<MemberView> = {}): MemberView {
  return {
    name,
    state: "active",
    since: 0,
    to: [],
    by: "",
    reason: "",
    jobs: 0,
    gpus: 0,
    nodes: 0,
    gpus_total: 0,
    gpus_free: 0,
    jobs_queued: 0,
    jobs_running: 0,
    lost_after_s: 0,
    heard_at: 0,
    gives_up_at: 0,
    ...given,
  };
}

function rule(given: Partial<RoutingRule> = {}): RoutingRule {
  return {
    name: "all",
    teams: [],
    users: [],
    kinds: [],
    labels: {},
    models: [],
    gpus_min: 0,
    gpus_max: null,
    clusters: [{ cluster: "atlas", queue_max: null, expected_start_s_max: null }],
    waits: false,
    ...given,
  };
}

describe("clusters", () => {
  const atlas = { name: "atlas", state: "active" } as ClusterView;

  it("are those that answer and those that the federation remembers", () => {
    const seen = seenClusters([atlas], { clusters: [member("old", { state: "lost" })], waiting: [] });
    expect(seen.map(({ name, state }) => `${name} ${state}`)).toEqual(["atlas active", "old lost"]);
  });

  it("are in the state that the federation tells, where it tells one", () => {
    expect(seenClusters([atlas], { clusters: [member("atlas", { state: "draining" })], waiting: [] })[0]?.state).toBe(
      "draining",
    );
    expect(seenClusters([atlas], undefined)[0]?.state).toBe("active");
  });
});

describe("why a cluster gets no jobs", () => {
  it("is nothing to say of one that does", () => expect(stateWords(member("atlas"))).toBe(""));

  it.each<[Partial<MemberView>, string]>([
    [
      { state: "draining", by: "grace", reason: "it moves", to: ["b", "c"], jobs: 3 },
      "Being drained by grace: it moves. New jobs go to b, then c. 3 jobs left there.",
    ],
    [{ state: "drained" }, "Drained. New jobs follow the routing rules. No jobs are left there."],
  ])("%o", (given, words) => expect(stateWords(member("a", given))).toBe(words));

  it("is that a lost cluster does not report", () =>
    expect(stateWords(member("a", { state: "lost" }))).toContain("Lost"));
});

describe("where jobs go", () => {
  it.each<[Partial<RoutingRule>, string]>([
    [{}, "every job"],
    [{ teams: ["vision", "llm"], kinds: ["batch"] }, "team vision or llm, batch"],
    [{ labels: { tier: "gold" }, models: ["H100"], gpus_min: 8 }, "tier=gold, on H100, 8 GPUs or more"],
    [{ gpus_max: 1 }, "up to 1 GPUs"],
    [{ gpus_min: 2, gpus_max: 4 }, "2 to 4 GPUs"],
  ])("a rule for %o", (given, words) => expect(matchWords(rule(given))).toBe(words));

  it("to one cluster after another, and when it overflows", () => {
    const clusters = [
      { cluster: "atlas", queue_max: 50, expected_start_s_max: 600 },
      { cluster: "borealis", queue_max: null, expected_start_s_max: null },
    ];
    expect(routeWords(rule({ clusters, waits: true }))).toBe(
      "atlas (until 50 wait, until the wait is 10 min), then borealis; waits if all are full",
    );
  });
});
