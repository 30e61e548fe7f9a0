import { describe, expect, it } from "vitest";
import { aJob, aWhy, NOON_NS, S } from "../jobs/samples";
import { headline } from "./headline";

const answers = (line: ReturnType<typeof headline>) =>
  Object.fromEntries(line.answers.map((one) => [one.question, one.told]));

describe("the first line of a job's page", () => {
  it("tells a waiting job's reason, place, start and cure", () => {
    const why = aWhy({
      position: 3,
      waiting: 12,
      reason: "quota",
      detail: "physics holds 8 of 8 GPUs",
      cure: "wait for JOB2",
      expected_start_at: NOON_NS + 720 * S,
      expected_basis: "JOB2's slice ends",
    });
    const line = headline(aJob(), why, NOON_NS + 60 * S);
    expect(line.sentence).toMatch(
      /^Waits for 1 min, 3rd of 12 in physics, starts by .* \(in 11 min\): its queue's quota is used up\.$/,
    );
    expect(answers(line)).toMatchObject({ Place: "3rd of 12 in physics", Hint: "Wait for JOB2" });
    expect(answers(line)["Starts"]).toContain("in 11 min");
  });

  it("says that it does not know before it was told", () => {
    expect(answers(headline(aJob(), null, NOON_NS))).toMatchObject({ Place: "…", Starts: "…", Hint: "…" });
    expect(answers(headline(aJob(), aWhy(), NOON_NS))["Starts"]).toBe("Unknown");
  });

  it("says of a held job that it is passed over", () => {
    const line = headline(aJob({ held: true }), aWhy(), NOON_NS);
    expect([line.tone, answers(line)["Hint"]]).toEqual(["held", "Release it"]);
  });

  it("tells until when a running job is protected from preemption", () => {
    const job = aJob({ phase: "running", nodes: ["n1"], running_at: NOON_NS, slice_ends_at: NOON_NS + 3_600 * S });
    const line = headline(job, null, NOON_NS + 60 * S);
    expect(line.sentence).toBe("Has run for 1 min with 8 GPUs on 1 node.");
    expect(answers(line)["Protected from preemption"]).toContain("in 59 min");
    expect(answers(headline(job, null, NOON_NS + 3_700 * S))["Protected from preemption"]).toBe("No more");
  });

  it("tells how a job ended", () => {
    const job = aJob({
      phase: "failed",
      exit_code: 137,
      running_at: NOON_NS,
      ended_at: NOON_NS + 90 * S,
      placed_at: NOON_NS,
    });
    expect(headline(job, null, NOON_NS + 99 * S)).toMatchObject({
      tone: "bad",
      sentence: "Failed after 1 min with exit code 137.",
    });
    expect(answers(headline(job, null, NOON_NS))["Why"]).toContain("want of memory");
    expect(headline(aJob({ phase: "cancelled", ended_at: NOON_NS }), null, NOON_NS).sentence).toBe(
      "Was cancelled before it ran.",
    );
  });
});
