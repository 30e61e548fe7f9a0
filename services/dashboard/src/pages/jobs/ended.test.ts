import { describe, expect, it } from "vitest";
import { isComplete, noneEnded, wanted, withPages } from "./ended";
import { aJob, NOON_NS, S } from "./samples";

const page = (ids: string, next_cursor = "") => ({
  jobs: [...ids].map((id) => aJob({ id, submitted_at: NOON_NS - id.charCodeAt(0) * S })),
  next_cursor,
});
const ids = (jobs: readonly { id: string }[]) => jobs.map((job) => job.id).join("");

describe("jobs that have ended", () => {
  it("stand newest first, whichever list they come from", () => {
    const pages = new Map([
      ["succeeded", page("ad")],
      ["failed", page("bc")],
    ] as const);
    const ended = withPages(noneEnded(["succeeded", "failed"]), pages);
    expect([ids(ended.jobs), isComplete(ended)]).toEqual(["abcd", true]);
  });

  it("are shown no further than every list is known", () => {
    const first = withPages(
      noneEnded(["succeeded", "failed"]),
      new Map([
        ["succeeded", page("adef")],
        ["failed", page("bc", "next")],
      ]),
    );
    expect([ids(first.jobs), isComplete(first)]).toEqual(["abc", false]);
    expect(wanted(first)).toEqual([{ phase: "failed", cursor: "next" }]);
    const second = withPages(first, new Map([["failed", page("e")]]));
    expect(ids(second.jobs)).toBe("abcdef");
  });

  it("wait on for a page that came empty but is not the last", () => {
    const ended = withPages(noneEnded(["failed"]), new Map([["failed", page("", "next")]]));
    expect([ended.jobs.length, wanted(ended).length, isComplete(ended)]).toEqual([0, 1, false]);
  });
});
