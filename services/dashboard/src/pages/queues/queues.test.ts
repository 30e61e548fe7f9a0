import { describe, expect, it } from "vitest";
import type { QueueView } from "../../wire";
import { aJob, aQueue, NOON_NS, S } from "../jobs/samples";
import { barOf, scaleOf } from "./bars";
import { figuresOf } from "./figures";
import { amount, GPU, resourcesOf, subtreeOf, treeOf, unfolded } from "./tree";
import { waitingIn } from "./waiting";

const gpus = (number: number) => ({ [GPU]: number * 1_000 });
/** The three teams of docs/concepts/scheduling.md. */
const threeTeams = (held: Record<string, number> = {}, waiting: Record<string, number> = {}): QueueView[] => {
  const total = Object.values(held).reduce((sum, one) => sum + one, 0);
  const queue = (name: string, more: Partial<QueueView>) =>
    aQueue({ name, parent: "org", held: gpus(held[name] ?? 0), jobs_queued: waiting[name] ?? 0, ...more });
  return [
    aQueue({ name: "org", held: gpus(total) }),
    queue("research", { quota: gpus(8), weight: 2 }),
    queue("platform", { quota: gpus(4), lending_limit: gpus(2) }),
    queue("serving", { quota: gpus(0), borrowing_limit: gpus(6) }),
  ];
};
const figures = (queues: QueueView[], capacity = 16) => figuresOf(treeOf(queues), GPU, capacity * 1_000);

describe("the tree of queues", () => {
  const queues = [
    aQueue({ name: "b", parent: "org", jobs_queued: 2 }),
    aQueue({ name: "org" }),
    aQueue({ name: "a", parent: "org", jobs_running: 1 }),
    aQueue({ name: "a2", parent: "a", jobs_queued: 1 }),
    aQueue({ name: "lost", parent: "gone" }),
  ];

  it("has each queue after the one above it, and sums of those below", () => {
    expect(treeOf(queues).map((node) => [node.queue.name, node.depth, node.running, node.waiting])).toEqual([
      ["lost", 0, 0, 0],
      ["org", 0, 1, 3],
      ["a", 1, 1, 1],
      ["a2", 2, 0, 1],
      ["b", 1, 0, 2],
    ]);
  });

  it("can be folded", () => {
    expect(unfolded(treeOf(queues), new Set(["a"])).map((node) => node.queue.name)).toEqual(["lost", "org", "a", "b"]);
    expect([...subtreeOf(treeOf(queues), "a")]).toEqual(["a", "a2"]);
  });

  it("tells its resources with GPUs first, in the units of people", () => {
    expect(resourcesOf([aQueue({ quota: { memory_mib: 1_024, "gpu_milli:H100": 8_000 } })])).toEqual([
      GPU,
      "gpu_milli:H100",
      "memory_mib",
    ]);
    expect([amount(GPU, 8_500), amount("memory_mib", 1_536), amount(GPU, null)]).toEqual(["8.5", "1.5", "-"]);
  });
});

describe("what a queue has", () => {
  it("is promised what its own say, and may reach what others may lend", () => {
    const found = figures(threeTeams());
    expect(found.get("org")?.nominal).toBe(12_000);
    expect([found.get("research")?.reach, found.get("platform")?.reach, found.get("serving")?.reach]).toEqual(
      [10_000, 12_000, 6_000], // research: its 8 and the 2 that platform lends; platform: its 4 and research's 8
    );
    expect(found.get("serving")?.limit).toBe(6_000);
  });

  it("is borrowed beyond its promise, and that is lent by those that leave something", () => {
    const found = figures(threeTeams({ serving: 5, research: 4 }));
    expect(found.get("serving")?.borrowed).toBe(5_000);
    const lent = [found.get("research")?.lent ?? 0, found.get("platform")?.lent ?? 0];
    expect(lent[0]).toBeCloseTo(3_333.3, 0); // of the 4 that research and the 2 that platform could lend
    expect(lent[1]).toBeCloseTo(1_666.7, 0);
    expect(found.get("serving")?.lent).toBe(0);
  });

  it("would fairly be its promise and, by weight, what those leave that want nothing", () => {
    const found = figures(threeTeams({}, { research: 3, serving: 3 }));
    // platform keeps the 2 that it never lends; of 12 - 2 - 8 = 2 research has two parts and serving one
    expect(found.get("research")?.fair).toBeCloseTo(8_000 + (2_000 * 2) / 3, 0);
    expect(found.get("serving")?.fair).toBeCloseTo(2_000 / 3, 0);
    expect(found.get("platform")?.fair).toBeNull();
  });

  it("is shared by weight alone where nothing was promised", () => {
    const found = figures([
      aQueue({ name: "a", weight: 3, held: gpus(4), jobs_queued: 1 }),
      aQueue({ name: "b", jobs_queued: 1 }),
    ]);
    expect([found.get("a")?.nominal, found.get("a")?.fair, found.get("b")?.fair]).toEqual([null, 12_000, 4_000]);
    expect([found.get("a")?.borrowed, found.get("a")?.reach]).toEqual([0, 16_000]);
  });

  it("counts the first form of quota and limit", () => {
    const one = figures([
      aQueue({ name: "q", gpu_milli_quota: 4_000, gpu_milli_limit: 6_000, gpu_milli_held: 1_000 }),
    ]).get("q");
    expect(one).toMatchObject({ nominal: 4_000, limit: 6_000, held: 1_000 });
  });
});

describe("a queue's bar", () => {
  it("has what is borrowed behind its own, and what is lent at the end of its promise", () => {
    const found = figures(threeTeams({ serving: 6, research: 2 }));
    const scale = scaleOf(found.values());
    const serving = barOf(found.get("serving") ?? never(), scale);
    const research = barOf(found.get("research") ?? never(), scale);
    expect(serving.own.width).toBe(0);
    expect(serving.borrowed.width).toBeCloseTo(6 / 12);
    expect(research.lent.left + research.lent.width).toBeCloseTo(research.nominal);
    expect(research.own.width).toBeCloseTo(2 / 12);
  });
});

describe("who waits", () => {
  it("is counted by reason, longest in line first", () => {
    const job = (id: string, more = {}) => aJob({ id, submitted_at: NOON_NS - Number(id) * S, ...more });
    const jobs = [
      job("1", { reason: "quota" }),
      job("3", { reason: "quota" }),
      job("2", { reason: "gpu" }),
      job("4", { phase: "running" }),
      job("5", { queue: "elsewhere" }),
      job("6", { held: true }),
    ];
    const found = waitingIn(new Set(["physics"]), jobs, 2);
    expect([found.count, found.jobs.map((one) => one.id)]).toEqual([4, ["6", "3"]]);
    expect(found.causes.map((cause) => [cause.reason, cause.jobs])).toEqual([
      ["quota", 2],
      ["gpu", 1],
      ["held", 1],
    ]);
  });
});

function never(): never {
  throw new Error("no such queue");
}
