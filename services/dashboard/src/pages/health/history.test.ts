import { describe, expect, it } from "vitest";
import type { Condition, ConditionsAnswer, EndedIllness } from "../../wire";
import { ENDED_MAX, HEIGHT, historyOf, timeBetween, WIDTH } from "./history";

const S = 1e9;
const NOW = 2e18;

function ended(beganS: number, endedS: number): EndedIllness {
  const at = (ago: number) => NOW - ago * S;
  return { kind: "node", name: "n1", node: "n1", codes: [], began_at: at(beganS), ended_at: at(endedS), attempts: 1 };
}

function standing(beganS: number, phase: Condition["phase"] = "suspect"): Condition {
  return {
    kind: "node",
    name: "n2",
    node: "n2",
    phase,
    since: 0,
    began_at: NOW - beganS * S,
    because: "",
    faults: [],
    attempt: 0,
    action: "",
    needs_person: false,
    withheld: false,
    maintained_by: [],
  };
}

function answer(over: EndedIllness[], now: Condition[] = []): ConditionsAnswer {
  return {
    cluster: "",
    nodes: 10,
    dry_run: false,
    conditions: now,
    ended: over,
    brake: { nodes: 0, most: 3, window_s: 600, tripped: null, tripped_at: 0 },
    counts: [],
    marks: [],
    opted_out: false,
    known: true,
    at: NOW,
  };
}

describe("problems over time", () => {
  it("are nothing to draw where all were healthy", () => {
    expect(historyOf(answer([]))).toBeNull();
    expect(historyOf(answer([], [standing(60, "healthy")]))).toBeNull();
  });

  it("step up where one begins, and down where it ends", () => {
    const history = historyOf(answer([ended(100, 50)], [standing(75)]));
    expect(history).toMatchObject({ now: 1, most: 2, fromNs: NOW - 100 * S });
    const [w, h] = [WIDTH, HEIGHT];
    const heights = history?.points.split(" ").map((point) => Number(point.split(",")[1]));
    expect(heights).toEqual([h, h / 2, h / 2, 0, 0, h / 2, h / 2]);
    expect(history?.points.split(" ").at(-1)).toBe(`${w}.0,${(h / 2).toFixed(1)}`);
  });

  it("go back a week at the most, and count what stood then", () => {
    const day = 86_400;
    const history = historyOf(answer([ended(9 * day, 6 * day)], [standing(60)]));
    expect(history?.fromNs).toBe(NOW - 7 * day * S);
    expect(history?.most).toBe(1);
  });

  it("begin where none is missing", () => {
    const many = Array.from({ length: ENDED_MAX }, (_, index) => ended(index + 500, index + 10));
    expect(historyOf(answer(many))?.fromNs).toBe(NOW - (ENDED_MAX + 9) * S);
  });
});

describe("the time between failures", () => {
  it("is not known of one", () => expect(timeBetween(answer([ended(100, 50)]))).toBeNull());

  it("is that from the first on, through those that came after it", () => {
    const between = timeBetween(answer([ended(100, 50)], [standing(75)]));
    expect(between).toEqual({ seconds: 100, perNodeS: 1000, problems: 2, windowS: 100 });
  });

  it("counts all that began in a window which began before", () => {
    const day = 86_400;
    const between = timeBetween(answer([ended(9 * day, 8 * day), ended(2 * day, day)], [standing(day)]));
    expect(between).toMatchObject({ problems: 2, seconds: 3.5 * day });
  });
});
