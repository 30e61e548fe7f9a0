import { describe, expect, it } from "vitest";
import type { Me, OutputLine, Reading } from "../../wire";
import { aFact, aJob, aNode, NOON_NS, S } from "../jobs/samples";
import { actionsFor } from "./access";
import { lifelineOf } from "./lifeline";
import { LINES_MAX, matching, NO_OUTPUT, withLines } from "./output";
import { placementOf } from "./placement";
import { course, devicesOf, fromKept, MEASURES, NO_READINGS, verdict, withLive } from "./readings";
import { storyOf } from "./story";
import { buildTrace } from "./trace";
import { isLopsided, waterfall } from "./waterfall";

const me = (role: Me["role"], ...teams: string[]): Me => ({ principal: "eve", role, teams, expires_at_s: null });
const at = (name: string, second: number, body: object = {}) =>
  aFact({ id: `${name}${second}`, name, seq: second + 1, time: NOON_NS + second * S, body: JSON.stringify(body) });

describe("who may act", () => {
  const why = (job = aJob(), who: Me | null = me("submitter", "physics")) =>
    Object.fromEntries(actionsFor(job, who).map((action) => [action.name, action.why]));

  it("is the team's own submitter, and any operator", () => {
    expect(why()).toEqual({ priority: "", hold: "", cancel: "" });
    expect(why(aJob(), me("operator"))).toEqual({ priority: "", hold: "", cancel: "" });
  });

  it("is told otherwise why not", () => {
    expect(why(aJob(), me("viewer"))["cancel"]).toContain("viewer");
    expect(why(aJob(), me("submitter", "biology"))["cancel"]).toContain("your teams: biology");
    expect(why(aJob({ phase: "failed" }))["cancel"]).toBe("The job has ended: failed.");
  });

  it("may hold what waits and release what is held", () => {
    expect(why(aJob({ phase: "running" }))).toMatchObject({
      cancel: "",
      hold: expect.stringContaining("Only a waiting job"),
    });
    expect(why(aJob({ held: true }))).toMatchObject({ release: "" });
  });
});

describe("a job's life", () => {
  it("is told in stretches, with each run anew", () => {
    const facts = [
      at("submitted", 0),
      at("queued", 1),
      at("placed", 5),
      at("running", 6),
      at("stop-requested", 16),
      at("queued", 17),
      at("placed", 18),
      at("running", 19),
      at("succeeded", 29),
      at("pods-exited", 30),
    ];
    const life = lifelineOf(facts, NOON_NS + 99 * S);
    expect(life.stretches.map((one) => `${one.stage} ${one.attempt}`)).toEqual([
      "waiting 1",
      "starting 1",
      "running 1",
      "stopping 1",
      "waiting 2",
      "starting 2",
      "running 2",
    ]);
    expect([life.ended, life.lengths.get("running"), life.lengths.get("waiting")]).toEqual(["succeeded", 20, 6]);
    expect(life.stretches.reduce((sum, one) => sum + one.share, 0)).toBeCloseTo(1);
  });

  it("of a live job lasts until now", () => {
    const life = lifelineOf([at("submitted", 0), at("held", 4), at("unheld", 6)], NOON_NS + 10 * S);
    expect(life.stretches.map((one) => [one.stage, (one.toNs - one.fromNs) / S])).toEqual([
      ["waiting", 4],
      ["held", 2],
      ["waiting", 4],
    ]);
  });
});

describe("a fact in a sentence", () => {
  it("has its numbers", () => {
    const slots = [{ group: 0, replica: 0, node: "gpu-0001", devices: [0, 1], gpu_milli: 1_000, gpus: 0, places: [] }];
    expect(storyOf(at("placed", 0, { slots, slice_s: 3_600 }))).toBe(
      "Placed on gpu-0001, 2 GPUs; protected from preemption for 1 h of running",
    );
    expect(storyOf(at("unschedulable", 0, { reason: "gpu", detail: "4 free, 8 asked" }))).toBe(
      "Cannot be placed: not enough free GPUs: 4 free, 8 asked",
    );
    expect(storyOf(at("failed", 0, { exit_code: 1, ran_s: 2 }))).toBe("Failed after 2 s of running: exit code 1");
  });

  it("is its name in words where the body is not given or cannot be read", () => {
    expect(storyOf(aFact({ name: "pods-started", body: "" }))).toBe("Pods started");
    expect(storyOf(aFact({ name: "pods-started", body: "{" }))).toBe("Pods started");
  });
});

describe("a waterfall", () => {
  const spans = buildTrace([at("submitted", 0), at("queued", 1), at("placed", 2), at("succeeded", 1_002)]).spans;

  it("keeps the order of time on either scale and ends at the right", () => {
    for (const scale of ["even", "true"] as const) {
      const { bars } = waterfall(spans, scale);
      const ends = bars.map((bar) => bar.left + bar.width);
      expect(ends).toEqual([...ends].sort((one, two) => one - two));
      expect(ends[ends.length - 1]).toBeCloseTo(1);
    }
  });

  it("gives short gaps room on the even scale", () => {
    expect(waterfall(spans, "true").bars[2]?.width).toBeLessThan(0.002);
    expect(waterfall(spans, "even").bars[2]?.width).toBeGreaterThan(0.2);
    expect(isLopsided(spans)).toBe(true);
  });
});

describe("a placement", () => {
  const slots = [
    { group: 0, replica: 0, node: "n2", devices: [0, 1], gpu_milli: 1_000, gpus: 0, places: [] },
    { group: 0, replica: 1, node: "n10", devices: [3], gpu_milli: 500, gpus: 0, places: [] },
  ];
  const other = aJob({
    id: "other",
    slots: [{ group: 0, replica: 0, node: "n2", devices: [7], gpu_milli: 1_000, gpus: 0, places: [] }],
  });

  it("shows the job's own cells and those of others, rack by rack", () => {
    const nodes = new Map([
      ["n2", aNode({ name: "n2", jobs: ["mine", "other"] })],
      [
        "n10",
        aNode({
          name: "n10",
          domains: [
            ["block", "b1"],
            ["rack", "r2"],
          ],
          usable: false,
          reason: "drained",
        }),
      ],
    ]);
    const racks = placementOf(aJob({ id: "mine", slots, nodes: ["n2", "n10"] }), nodes, new Map([["other", other]]));
    expect(racks.map((rack) => [rack.name, rack.nodes.map((node) => node.name)])).toEqual([
      ["r1", ["n2"]],
      ["r2", ["n10"]],
    ]);
    expect(racks[0]?.nodes[0]?.cells.map((cell) => cell.mineMilli - cell.othersMilli)).toEqual([
      1_000, 1_000, 0, 0, 0, 0, 0, -1_000,
    ]);
    expect(racks[1]?.nodes[0]).toMatchObject({ state: "withheld", reason: "drained" });
    expect(racks[1]?.nodes[0]?.cells[3]?.mineMilli).toBe(500);
  });

  it("shows as many cells as it holds where the kubelet picks the GPUs", () => {
    const held = { group: 0, replica: 0, node: "n2", devices: [], gpu_milli: 1_000, gpus: 3, places: [4, 5, 6] };
    const nodes = new Map([["n2", aNode({ name: "n2", jobs: ["mine", "other"] })]]);
    const racks = placementOf(aJob({ id: "mine", slots: [held], nodes: ["n2"] }), nodes, new Map([["other", other]]));
    const [node] = racks[0]?.nodes ?? [];
    expect(node?.isByCount).toBe(true);
    expect(node?.cells.filter((cell) => cell.mineMilli === 1_000).length).toBe(3);
    expect(node?.cells.filter((cell) => cell.othersMilli > 0).length).toBe(1);
  });

  it("still shows what it knows of a node that is gone", () => {
    const racks = placementOf(aJob({ slots, nodes: ["n2", "n10"] }), new Map(), new Map());
    expect(racks[0]?.nodes.map((node) => [node.name, node.state, node.cells.length])).toEqual([
      ["n2", "unknown", 2],
      ["n10", "unknown", 4],
    ]);
  });
});

describe("readings", () => {
  const reading = (pct: number): Reading => [pct, 60, 1_024, 300];
  const kept = fromKept({
    job_id: "j",
    at: [1, 2],
    devices: { "n/1": [reading(0), reading(0)], "n/0": [reading(90), null] },
  });

  it("are drawn as mean, least and most of all devices", () => {
    expect(kept.devices).toEqual(["n/0", "n/1"]);
    expect(course(kept, MEASURES[0], 10)).toEqual([
      { at: 1, mean: 45, least: 0, most: 90 },
      { at: 2, mean: 0, least: 0, most: 0 },
    ]);
    expect(course(kept, MEASURES[0], 1)).toHaveLength(1);
  });

  it("name the GPUs that stand idle", () => {
    expect(verdict(kept)).toMatchObject({ meanPct: 45, idle: ["n/1"], words: "1 of 2 GPUs stand idle: n/1" });
    expect(verdict(NO_READINGS)).toBeNull();
  });

  it("go on with what comes, once for each moment", () => {
    const job = aJob({
      slots: [{ group: 0, replica: 0, node: "n", devices: [0], gpu_milli: 1_000, gpus: 0, places: [] }],
    });
    const newest = new Map([["n", [reading(50), null]]]);
    const more = withLive(kept, devicesOf(job), newest, 3);
    expect(more.columns[2]?.values).toEqual([reading(50), null]);
    expect(withLive(more, devicesOf(job), newest, 3)).toBe(more);
    expect(withLive(kept, devicesOf(job), new Map(), 3)).toBe(kept);
  });
});

describe("the tail of the output", () => {
  const line = (atNs: number, text: string): OutputLine => ({ at: atNs, group: 0, replica: 0, attempt: 1, text });

  it("takes lines that it was sent twice once", () => {
    const first = withLines(NO_OUTPUT, [line(1, "a"), line(2, "b")]);
    expect(
      withLines(first, [line(2, "b"), line(2, "c"), line(3, "d")])
        .lines.map((one) => one.text)
        .join(""),
    ).toBe("abcd");
  });

  it("puts a page that comes late before what was printed meanwhile", () => {
    const live = withLines(NO_OUTPUT, [line(10, "k")]);
    const both = withLines(live, [line(7, "g"), line(8, "h"), line(10, "k")]);
    const tail = withLines(both, [line(11, "l")]);
    expect(tail.lines.map((one) => `${one.number}${one.text}`).join(" ")).toBe("1g 2h 3k 4l");
  });

  it("is bounded, and numbers go on", () => {
    const many = Array.from({ length: LINES_MAX + 5 }, (_none, index) => line(index + 1, String(index)));
    const tail = withLines(NO_OUTPUT, many);
    expect([tail.lines.length, tail.dropped, tail.lines[0]?.number]).toEqual([LINES_MAX, 5, 6]);
  });

  it("can be searched", () => {
    const tail = withLines(NO_OUTPUT, [line(1, "Loss 0.5"), line(2, "saved")]);
    expect(matching(tail, "loss 0").map((one) => one.text)).toEqual(["Loss 0.5"]);
  });
});
