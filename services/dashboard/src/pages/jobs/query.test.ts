import { describe, expect, it } from "vitest";
import { columnOf } from "./columns";
import { complaint, EMPTY_QUERY, fitting, parseQuery, withFilter, withValueToggled, writeQuery } from "./query";
import { aJob, NOON_NS, S } from "./samples";

const fits = (search: string, job = aJob(), nowNs = NOON_NS) =>
  fitting(parseQuery(new URLSearchParams(search)))(job, nowNs);

describe("a query of the table of jobs", () => {
  it("comes back from the address as it was written there", () => {
    const search = "show=ended&q=llama+70b&phase=failed%2Ctimed-out&gpus=%3E%3D8&group=team&sort=-time&open=physics";
    expect(writeQuery(parseQuery(new URLSearchParams(search))).toString()).toBe(
      new URLSearchParams(
        "show=ended&q=llama 70b&phase=failed,timed-out&gpus=>=8&group=team&sort=-time&open=physics",
      ).toString(),
    );
  });

  it("leaves an address short where nothing was asked", () => {
    expect(writeQuery(parseQuery(new URLSearchParams("nonsense=1&sort=nonsense&group=time"))).toString()).toBe("");
  });

  it("takes exact words, beginnings, and what is not wanted", () => {
    expect(fits("team=physics,biology")).toBe(true);
    expect(fits("team=phys")).toBe(false);
    expect(fits("team=phys*")).toBe(true);
    expect(fits("team=!physics")).toBe(false);
    expect(fits("reason=none")).toBe(true);
    expect(fits("reason=none", aJob({ reason: "quota" }))).toBe(false);
  });

  it("compares numbers and lengths of time", () => {
    expect(fits("gpus=>=8")).toBe(true);
    expect(fits("gpus=>2,<8")).toBe(false);
    expect(fits("time=>1h30m", aJob(), NOON_NS + 5_401 * S)).toBe(true);
    expect(fits("time=>1h30m", aJob(), NOON_NS + 5_399 * S)).toBe(false);
  });

  it("finds any of a job's nodes", () => {
    expect(fits("node=gpu-0002", aJob({ nodes: ["gpu-0001", "gpu-0002"] }))).toBe(true);
    expect(fits("node=none", aJob({ nodes: [] }))).toBe(true);
  });

  it("searches every word of the text in names, ids and places", () => {
    expect(fits("q=ADA+train")).toBe(true);
    expect(fits("q=ada+serve")).toBe(false);
    expect(fits("q=quota", aJob({ reason: "quota" }))).toBe(true);
  });

  it("says what is wrong with a bound that it cannot read, and does not apply it", () => {
    const gpus = columnOf("gpus");
    expect(gpus && complaint(gpus, ">many")).toContain("no number");
    expect(gpus && complaint(gpus, ">=8,<64")).toBe("");
    expect(fits("gpus=>many")).toBe(true);
  });

  it("puts a value into a filter and takes it out again", () => {
    const one = withValueToggled(withFilter(EMPTY_QUERY, "team", "physics"), "team", "biology");
    expect(one.filters.get("team")).toBe("physics,biology");
    expect(withValueToggled(withValueToggled(one, "team", "physics"), "team", "biology").filters.has("team")).toBe(
      false,
    );
    expect(withValueToggled(EMPTY_QUERY, "reason", "").filters.get("reason")).toBe("none");
  });
});
