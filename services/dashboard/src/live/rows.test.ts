import { describe, expect, it } from "vitest";
import type { LiveSlice, QueueView } from "../wire";
import { bound, type Changes, GONE_MAX, noChanges } from "./changes";
import { FACTS_KEPT, FactRing } from "./facts";
import { ENDED_KEPT, Rows, WAITING_KEPT } from "./rows";
import { fact, jobRow, nodeRow, slice, snapshot } from "./samples";

function applied(rows: Rows, given: Partial<LiveSlice>): Changes {
  const changes = noChanges();
  rows.apply(slice({ seq: 1, prev: 0, ...given }), changes);
  return changes;
}

describe("jobs", () => {
  it("are replaced by newer rows and keep newer ones", () => {
    const rows = new Rows();
    applied(rows, { jobs: [jobRow("A", "running", { seq: 9 })] });
    expect(applied(rows, { jobs: [jobRow("A", "queued", { seq: 7 })] }).jobs.size).toBe(0);
    expect(rows.jobs.get("A")?.phase).toBe("running");
  });

  it("are the cluster's to tell once it has them, however the two logs count", () => {
    const rows = new Rows();
    applied(rows, { cluster: "fed", jobs: [jobRow("A", "submitted", { cluster: "", seq: 900 })] });
    applied(rows, { jobs: [jobRow("A", "queued", { seq: 3 })] });
    expect(rows.jobs.get("A")?.phase).toBe("queued");
    applied(rows, { cluster: "fed", jobs: [jobRow("A", "submitted", { seq: 901 })] });
    expect(rows.jobs.get("A")?.phase).toBe("queued");
    applied(rows, { cluster: "fed", gone_jobs: ["A"] });
    expect(rows.jobs.has("A")).toBe(true);
  });

  it("go with the federation's row if no cluster ever had them", () => {
    const rows = new Rows();
    applied(rows, { cluster: "fed", jobs: [jobRow("A", "submitted", { cluster: "" })] });
    expect([...applied(rows, { cluster: "fed", gone_jobs: ["A"] }).goneJobs]).toEqual(["A"]);
    expect(rows.jobs.size).toBe(0);
  });

  it("of a snapshot that were only submitted may be told of by either log", () => {
    const rows = new Rows();
    rows.reset(snapshot({ jobs: [jobRow("A", "submitted", { cluster: "", seq: 900 })] }), noChanges());
    applied(rows, { jobs: [jobRow("A", "queued", { seq: 3 })] });
    expect(rows.jobs.get("A")?.phase).toBe("queued");
  });

  it("stay when they have ended, the newest so many", () => {
    const rows = new Rows();
    applied(rows, { jobs: [jobRow("OLD", "succeeded"), jobRow("LIVE", "running")] });
    const many = Array.from({ length: ENDED_KEPT }, (_, number) => jobRow(`J${number}`, "failed"));
    const changes = applied(rows, { jobs: many });
    expect([...changes.goneJobs]).toEqual(["OLD"]);
    expect(rows.jobs.size).toBe(ENDED_KEPT + 1);
    expect(rows.jobs.has("LIVE")).toBe(true);
  });

  it("that a new snapshot no longer has are gone, but for those known to have ended", () => {
    const rows = new Rows();
    applied(rows, { jobs: [jobRow("A", "running"), jobRow("B", "succeeded")] });
    const changes = noChanges();
    rows.reset(snapshot({ jobs: [jobRow("C", "queued")] }), changes);
    expect([...rows.jobs.keys()].sort()).toEqual(["B", "C"]);
    expect(changes.reset).toBe(true);
  });
});

/** A page of two clusters that began with these. */
function ofTwo(given: Parameters<typeof snapshot>[0] = {}): Rows {
  const rows = new Rows();
  rows.reset(snapshot({ seqs: { atlas: {}, borg: {}, fed: {} }, ...given }), noChanges());
  return rows;
}

describe("jobs of several clusters", () => {
  const fedRow = (cluster: string, given = {}) => jobRow("A", "submitted", { cluster, seq: 900, ...given });
  const inAtlas = jobRow("A", "running", { seq: 3 });
  const madeUp = jobRow("A", "succeeded", { cluster: "borg", seq: 99, name: "stolen", team: "red" });

  it("are told of by the cluster that the federation names, and by no other", () => {
    const rows = ofTwo();
    applied(rows, { cluster: "fed", jobs: [fedRow("atlas")] });
    applied(rows, { cluster: "atlas", jobs: [inAtlas] });
    expect(applied(rows, { cluster: "borg", jobs: [madeUp], gone_jobs: [] }).jobs.size).toBe(0);
    expect(applied(rows, { cluster: "borg", gone_jobs: ["A"] }).goneJobs.size).toBe(0);
    expect(rows.jobs.get("A")).toEqual(inAtlas);
  });

  it("of a snapshot stay with the cluster that it says", () => {
    const rows = ofTwo({ jobs: [inAtlas] });
    applied(rows, { cluster: "borg", jobs: [madeUp] });
    expect(rows.jobs.get("A")).toEqual(inAtlas);
    applied(rows, { cluster: "atlas", jobs: [jobRow("A", "succeeded", { seq: 4 })] });
    expect(rows.jobs.get("A")?.phase).toBe("succeeded");
  });

  it("stay with their cluster when they have ended", () => {
    const rows = ofTwo({ jobs: [inAtlas] });
    const ended = jobRow("A", "failed", { seq: 4 });
    applied(rows, { cluster: "atlas", jobs: [ended] });
    applied(rows, { cluster: "fed", jobs: [fedRow("atlas", { phase: "failed", seq: 950 })] });
    applied(rows, { cluster: "borg", jobs: [{ ...madeUp, phase: "running" }] });
    rows.reset(snapshot({ seqs: { atlas: {}, borg: {}, fed: {} } }), noChanges());
    applied(rows, { cluster: "borg", jobs: [{ ...madeUp, phase: "running" }] });
    expect(rows.jobs.get("A")).toEqual(ended);
  });

  it("that the federation did not name are not shown, whoever tells of them", () => {
    const rows = ofTwo();
    applied(rows, { cluster: "borg", jobs: [madeUp] });
    expect(rows.jobs.size).toBe(0);
    applied(rows, { cluster: "fed", jobs: [fedRow("")] });
    expect(rows.jobs.get("A")?.phase).toBe("submitted");
  });

  it("are shown by a row that came before the federation's", () => {
    const rows = ofTwo({ jobs: [fedRow("")] });
    applied(rows, { cluster: "atlas", jobs: [inAtlas] });
    expect(rows.jobs.get("A")?.phase).toBe("submitted");
    applied(rows, { cluster: "fed", jobs: [fedRow("atlas", { seq: 901 })] });
    expect(rows.jobs.get("A")).toEqual(inAtlas);
  });

  it("are shown by a row that the snapshot had before the federation's", () => {
    const rows = ofTwo({ jobs: [fedRow("")], unconfirmed_jobs: [inAtlas, madeUp] });
    expect(rows.jobs.get("A")?.phase).toBe("submitted");
    applied(rows, { cluster: "fed", jobs: [fedRow("atlas", { seq: 901 })] });
    expect(rows.jobs.get("A")).toEqual(inAtlas);
  });

  it("of a snapshot that is ahead of the federation's slices are shown again once these are there", () => {
    const rows = ofTwo({ jobs: [inAtlas] });
    applied(rows, { cluster: "fed", jobs: [fedRow("")] });
    expect(rows.jobs.get("A")?.phase).toBe("submitted");
    applied(rows, { cluster: "fed", jobs: [fedRow("atlas", { seq: 901 })] });
    expect(rows.jobs.get("A")).toEqual(inAtlas);
  });

  it("that move are told of by the new cluster, and no more by the old one", () => {
    const rows = ofTwo({ jobs: [inAtlas] });
    applied(rows, { cluster: "fed", jobs: [fedRow("")] });
    applied(rows, { cluster: "atlas", gone_jobs: ["A"] });
    expect(rows.jobs.get("A")?.cluster).toBe("");
    applied(rows, { cluster: "fed", jobs: [fedRow("borg", { seq: 901 })] });
    applied(rows, { cluster: "atlas", jobs: [jobRow("A", "failed", { seq: 8 })] });
    expect(rows.jobs.get("A")?.phase).toBe("submitted");
    applied(rows, { cluster: "borg", jobs: [jobRow("A", "queued", { cluster: "borg", seq: 1 })] });
    expect(rows.jobs.get("A")?.phase).toBe("queued");
  });

  it("wait in bounds, and one cluster's rows take no place from another's", () => {
    const rows = ofTwo();
    applied(rows, { cluster: "atlas", jobs: [inAtlas] });
    const many = Array.from({ length: WAITING_KEPT + 1 }, (_, number) =>
      jobRow(`J${number}`, "running", { cluster: "borg" }),
    );
    applied(rows, { cluster: "borg", jobs: many });
    applied(rows, { cluster: "fed", jobs: [fedRow("atlas"), fedRow("borg", { id: "J0" })] });
    expect(rows.jobs.get("A")).toEqual(inAtlas);
    expect(rows.jobs.get("J0")?.phase).toBe("submitted");
  });

  it("are called what the federation or their cluster calls them", () => {
    const rows = ofTwo({ jobs: [jobRow("B", "running")] });
    const named = (id: string, cluster: string, name: string, given = {}) =>
      fact(1, {
        id: `${id} ${name}`,
        subject_id: id,
        name: "routed",
        cluster,
        stream: `LOG_${cluster}`,
        body: JSON.stringify({ job: { spec: { name } } }),
        ...given,
      });
    rows.learn([named("A", "borg", "stolen"), named("A", "", "llama", { stream: "FED", name: "submitted" })]);
    expect(rows.names.get("A")).toBe("llama");
  });
});

describe("what nobody is told of, because the tab is hidden", () => {
  it("stays within bounds, however many jobs come and go", () => {
    const rows = new Rows();
    const changes = noChanges();
    for (let number = 0; number < 20_000; number += 1) {
      rows.apply(slice({ seq: 1, prev: 0, jobs: [jobRow(`J${number}`, "succeeded")] }), changes);
      bound(changes);
    }
    expect(changes.goneJobs.size).toBeLessThanOrEqual(GONE_MAX);
    expect(changes.reset).toBe(true);
    expect(rows.jobs.size).toBe(ENDED_KEPT);
  });
});

describe("queues", () => {
  it("have shares of nothing until the scheduler is asked, whatever the row leaves out", () => {
    const rows = new Rows();
    applied(rows, { queues: [{ name: "physics", jobs_queued: 3 } as QueueView] });
    expect(rows.queues.get("physics")).toMatchObject({ jobs_queued: 3, share: 0, used_share: 0 });
  });
});

describe("nodes and readings", () => {
  it("come, change and go", () => {
    const rows = new Rows();
    expect([...applied(rows, { nodes: [nodeRow("n1"), nodeRow("n2")] }).nodes]).toEqual(["n1", "n2"]);
    rows.readings({ cluster: "atlas", at: 0, nodes: { n1: [[50, 60, 1, 300], null] } }, noChanges());
    expect(rows.telemetry.get("n1")?.[0]?.[0]).toBe(50);
    const changes = applied(rows, { gone_nodes: ["n1", "never"] });
    expect([...changes.goneNodes]).toEqual(["n1"]);
    expect(rows.telemetry.has("n1")).toBe(false);
  });
});

describe("facts", () => {
  it("are heard once each, however often they come, with the names of their jobs", () => {
    const rows = new Rows();
    const changes = noChanges();
    const body = JSON.stringify({ job: { spec: { name: "llama" } } });
    rows.hear(slice({ seq: 2, prev: 0, facts: [fact(1, { name: "routed", body }), fact(2)] }), changes);
    expect(rows.hear(slice({ seq: 3, prev: 1, facts: [fact(2), fact(3)] }), changes).map((one) => one.seq)).toEqual([
      3,
    ]);
    expect(changes.facts.map((one) => one.seq)).toEqual([1, 2, 3]);
    expect(rows.names.get("A")).toBe("llama");
  });

  it("of both audiences are one fact, with the body that only the team's has", () => {
    const ring = new FactRing();
    expect(ring.add(fact(1))).toBe(true);
    expect(ring.add(fact(1, { body: "{}" }))).toBe(false);
    expect(ring.add(fact(1))).toBe(false);
    expect(ring.list().map((one) => one.body)).toEqual(["{}"]);
  });

  it("are kept in order, the newest so many", () => {
    const ring = new FactRing();
    for (let seq = 0; seq < FACTS_KEPT + 3; seq += 1) {
      ring.add(fact(seq));
    }
    const kept = ring.list().map((one) => one.seq);
    expect([kept.length, kept[0], kept.at(-1)]).toEqual([FACTS_KEPT, 3, FACTS_KEPT + 2]);
    expect(ring.get("fact-0")).toBeUndefined();
  });
});
