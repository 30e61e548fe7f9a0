import { describe, expect, it } from "vitest";
import { aFact, NOON_NS, S } from "../jobs/samples";
import { buildTrace, isOfJob, withoutRepeats } from "./trace";

const at = (id: string, second: number, causes: string[] = [], more = {}) =>
  aFact({ id, seq: second + 1, time: NOON_NS + second * S, causes, name: id, ...more });
const tree = (facts: Parameters<typeof buildTrace>[0]) =>
  buildTrace(facts).spans.map((span) => `${"-".repeat(span.depth)}${span.id}${span.caused || !span.parent ? "" : "*"}`);

describe("a fact", () => {
  const job = { id: "A", trace: "00-abc-def-01", cluster: "atlas" };

  it("is the job's if the federation or the job's cluster tells it", () => {
    expect(isOfJob(at("queued", 1, [], { subject_id: "A" }), job)).toBe(true);
    expect(isOfJob(at("submitted", 1, [], { subject_id: "A", stream: "FED", cluster: "" }), job)).toBe(true);
    expect(isOfJob(at("attached", 1, [], { kind: "attachment", trace: "00-abc-999-01" }), job)).toBe(true);
  });

  it("is not the job's if another cluster tells it, about the job or under its trace", () => {
    const other = { stream: "LOG_borg", cluster: "borg" };
    expect(isOfJob(at("succeeded", 1, [], { ...other, subject_id: "A" }), job)).toBe(false);
    expect(isOfJob(at("attached", 1, [], { ...other, kind: "attachment", trace: job.trace }), job)).toBe(false);
  });
});

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
