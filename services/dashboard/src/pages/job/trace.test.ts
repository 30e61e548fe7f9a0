import { describe, expect, it } from "vitest";
import { aFact, NOON_NS, S } from "../jobs/samples";
import { buildTrace, withoutRepeats } from "./trace";

const at = (id: string, second: number, causes: string[] = [], more = {}) =>
  aFact({ id, seq: second + 1, time: NOON_NS + second * S, causes, name: id, ...more });
const tree = (facts: Parameters<typeof buildTrace>[0]) =>
  buildTrace(facts).spans.map((span) => `${"-".repeat(span.depth)}${span.id}${span.caused || !span.parent ? "" : "*"}`);

describe("a job's trace", () => {
  it("hangs a fact under the newest of its causes and keeps the others as links", () => {
    const facts = [at("submitted", 0), at("queued", 1, ["submitted"]), at("placed", 2, ["submitted", "queued"])];
    expect(tree(facts)).toEqual(["submitted", "-queued", "--placed"]);
    expect(buildTrace(facts).spans[2]?.links).toEqual(["submitted"]);
  });

  it("hangs what names no cause under the newest earlier fact, marked", () => {
    expect(tree([at("submitted", 0), at("queued", 1, ["submitted"]), at("lost", 2, ["elsewhere"])])).toEqual([
      "submitted",
      "-queued",
      "--lost*",
    ]);
  });

  it("takes a fact that was sourced into a second stream once", () => {
    const twice = [at("submitted", 0, [], { stream: "FED" }), at("submitted", 1, [], { stream: "LOG_atlas" })];
    expect(buildTrace(twice).spans.map((span) => span.streams)).toEqual([["FED", "LOG_atlas"]]);
  });

  it("ends with the job's own last word", () => {
    const facts = [at("submitted", 0), at("failed", 3, [], { kind: "attachment" }), at("succeeded", 5), at("noted", 9)];
    const trace = buildTrace(facts);
    expect([trace.finished, trace.totalS]).toEqual([true, 5]);
  });

  it("is empty without facts", () => {
    expect(buildTrace([]).spans).toEqual([]);
  });

  it("lets the slowest stand for devices that were attached alike", () => {
    const device = (name: string, second: number) =>
      at(`${name}-attached`, second, ["chosen"], { kind: "attachment", subject_id: name, name: "attached" });
    const trace = buildTrace([at("chosen", 0), device("d1", 1), device("d2", 4), device("d3", 2)]);
    const shown = withoutRepeats(trace.spans);
    expect(shown.spans.map((span) => span.id)).toEqual(["chosen", "d2-attached"]);
    expect(shown.alike.get("d2-attached")).toBe(2);
  });
});
