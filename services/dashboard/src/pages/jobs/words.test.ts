import { describe, expect, it } from "vitest";
import { aJob, NOON_NS, S } from "./samples";
import {
  brief,
  clock,
  distance,
  duration,
  heldGpus,
  long,
  nodeList,
  ordinal,
  placeOrReason,
  timeInPhaseS,
  when,
} from "./words";

describe("words", () => {
  it.each([
    [0.04, "0.0s"],
    [59.94, "59.9s"],
    [61, "1:01"],
    [3_723, "1:02:03"],
    [93_784, "1-02:03:04"],
  ])("%d s last %s as squeue writes it", (seconds, told) => {
    expect(duration(seconds)).toBe(told);
  });

  it.each([
    [40, "40 s"],
    [725, "12 min"],
    [12_000, "3 h 20 min"],
    [7_200, "2 h"],
    [187_200, "2 d 4 h"],
  ])("%d s are %s in their two largest units", (seconds, told) => {
    expect(long(seconds)).toBe(told);
  });

  it("tells the control plane's own work in three digits", () => {
    expect([brief(0.0125), brief(3.214), brief(0.00004), brief(120)]).toEqual([
      "12.5 ms",
      "3.21 s",
      "0.04 ms",
      "2 min",
    ]);
  });

  it("says the day only where it is another one", () => {
    const at = Date.UTC(2026, 10, 22, 14, 5) * 1e6;
    expect(clock(at, at - 60 * S, "UTC")).toBe("14:05");
    expect(clock(at, at - 86_400 * S, "UTC")).toBe("Sun 22 Nov 14:05");
    expect(clock(at, at - 400 * 86_400 * S, "UTC")).toBe("2026-11-22 14:05");
    expect(when(at, at - 720 * S, "UTC")).toBe("14:05 (in 12 min)");
    expect(distance(at, at + 40 * S)).toBe("40 s ago");
  });

  it("folds runs of numbers in node names", () => {
    expect(nodeList(["gpu-0001", "gpu-0002", "gpu-0004", "gpu-0003", "gpu-0009"])).toBe("gpu-[0001-0004,0009]");
    expect(nodeList(["gpu-0007", "login"])).toBe("gpu-0007,login");
    expect(nodeList(["a-1", "b-2", "c-3"], 6)).toBe("a-1,b…");
  });

  it("tells an elastic job's GPUs with what it asks for", () => {
    const slots = [{ group: 0, replica: 0, node: "n", devices: [0, 1], gpu_milli: 1_000, gpus: 0, places: [] }];
    expect(heldGpus(aJob({ phase: "running", slots }))).toBe("2/8");
    expect(heldGpus(aJob({ phase: "succeeded", slots }))).toBe("8");
    expect(heldGpus(aJob({ gpu_milli: 500 }))).toBe("0.5");
  });

  it("counts time from the start of the run, else from submission, and not beyond the end", () => {
    expect(timeInPhaseS(aJob(), NOON_NS + 5 * S)).toBe(5);
    expect(timeInPhaseS(aJob({ running_at: NOON_NS + 2 * S, ended_at: NOON_NS + 4 * S }), NOON_NS + 9 * S)).toBe(2);
  });

  it("tells nodes where there are some, else the reason", () => {
    expect(placeOrReason(aJob({ reason: "quota" }), NOON_NS)).toBe("quota");
    expect(placeOrReason(aJob({ nodes: ["n1"], reason: "quota" }), NOON_NS)).toBe("n1");
  });

  it("counts places as people do", () => {
    expect([1, 2, 3, 4, 11, 12, 13, 21, 102, 111].map(ordinal)).toEqual([
      "1st",
      "2nd",
      "3rd",
      "4th",
      "11th",
      "12th",
      "13th",
      "21st",
      "102nd",
      "111th",
    ]);
  });
});
