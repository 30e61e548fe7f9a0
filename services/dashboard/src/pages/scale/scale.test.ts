import { describe, expect, it } from "vitest";
import { aChoice, NOON_NS, S } from "../jobs/samples";
import { timelineOf } from "./timeline";
import { keyOf, stateOf, wattsOf, whatOf } from "./words";

describe("a choice of the scaler", () => {
  it("is told as what moves", () => {
    expect(whatOf(aChoice())).toBe("attach 2 × H100");
    expect(whatOf(aChoice({ name: "gpu-remove-chosen", devices: ["d"], device_model: "" }))).toBe("return 1 × GPU");
    expect(whatOf(aChoice({ name: "node-add-chosen" }))).toBe("add a node");
  });

  it("is told with how far it is", () => {
    expect(stateOf(aChoice(), NOON_NS + 12 * S)).toBe("under way for 12 s");
    expect(stateOf(aChoice({ outcome: "done", ended_at: NOON_NS + 4.2 * S }), NOON_NS)).toBe("done in 4.2 s");
    expect(stateOf(aChoice({ name: "nothing-chosen" }), NOON_NS)).toBe("");
  });

  it("is told from others that nothing was chosen for by its time", () => {
    const nothing = { id: "job-1", name: "nothing-chosen" };
    expect(keyOf(aChoice(nothing))).not.toBe(keyOf(aChoice({ ...nothing, at: NOON_NS + S })));
    expect(keyOf(aChoice())).toBe("scale-1");
  });

  it("saves power when scaling down", () => {
    expect([wattsOf(700, 1), wattsOf(700, 3), wattsOf(0, 3)]).toEqual(["+700", "−700", "0"]);
  });
});

describe("the line of time", () => {
  const now = NOON_NS + 600 * S;

  it("has a lane for each thing that was chosen, ending now", () => {
    const line = timelineOf(
      [aChoice({ ended_at: NOON_NS + 300 * S, outcome: "done" }), aChoice({ id: "2", name: "nothing-chosen" })],
      now,
    );
    expect(line.lanes.map((lane) => lane.title)).toEqual(["Attach GPUs", "Nothing helps"]);
    expect(line.lanes[0]?.marks[0]).toMatchObject({ left: 0, width: 0.5, outcome: "done" });
    expect(line.toNs).toBe(now);
  });

  it("puts choices that overlap into rows of their own", () => {
    const line = timelineOf([aChoice(), aChoice({ id: "2", at: NOON_NS + S })], now);
    expect(line.lanes[0]?.marks.map((mark) => mark.row)).toEqual([0, 1]);
    expect(line.lanes[0]?.marks[1]).toMatchObject({ outcome: "going" });
  });

  it("is drawn even where nothing was chosen yet", () => {
    expect(timelineOf([], now).lanes).toEqual([]);
  });
});
