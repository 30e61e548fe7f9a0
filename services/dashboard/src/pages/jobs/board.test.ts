import { describe, expect, it } from "vitest";
import type { JobView, Phase } from "../../wire";
import { JobBoard, type Line } from "./board";
import { parseQuery } from "./query";
import { aJob, NOON_NS, S } from "./samples";

const query = (search = "") => parseQuery(new URLSearchParams(search));
const OPEN = new Set(["biology", "physics", "chemistry", ""]);
const told = (lines: readonly Line[]) =>
  lines.map((line) => ("group" in line ? `${line.group.name}:${line.group.entries.length}` : line.job.id));

function board(search: string, jobs: Iterable<JobView>): JobBoard {
  const made = new JobBoard(query(search));
  made.fill(query(search), jobs, NOON_NS);
  return made;
}

/** The same numbers in each run. */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * below);
  };
}

describe("the rows of the table of jobs", () => {
  it("stand newest first when nothing else is asked", () => {
    const jobs = [1, 3, 2].map((age) => aJob({ id: `j${age}`, submitted_at: NOON_NS - age * S }));
    expect(told(board("", jobs).lines(0, 9, OPEN))).toEqual(["j1", "j2", "j3"]);
    expect(told(board("sort=-submitted", jobs).lines(0, 9, OPEN))).toEqual(["j3", "j2", "j1"]);
  });

  it("do not show jobs that have ended, nor those that no longer fit", () => {
    const jobs = new Map([
      ["j1", aJob({ id: "j1" })],
      ["j2", aJob({ id: "j2" })],
    ]);
    const made = board("phase=queued", jobs.values());
    jobs.set("j1", aJob({ id: "j1", phase: "succeeded" })).set("j2", aJob({ id: "j2", phase: "running" }));
    expect(made.apply(["j1", "j2"], jobs, NOON_NS)).toBe(true);
    expect([made.size, made.known, made.phases.get("running")]).toEqual([0, 1, 1]);
  });

  it("say whether anything changed that is shown", () => {
    const jobs = new Map([["j1", aJob({ id: "j1" })]]);
    const made = board("team=biology", jobs.values());
    expect(made.apply(["j1"], jobs, NOON_NS)).toBe(false);
  });

  it("are counted under their group, folded or not", () => {
    const jobs = ["physics", "biology", "physics"].map((team, index) => aJob({ id: `j${index}`, team }));
    const made = board("group=team", jobs);
    expect(made.length(new Set())).toBe(2);
    expect(told(made.lines(0, 9, new Set(["physics"])))).toEqual(["biology:1", "physics:2", "j0", "j2"]);
    expect(told(made.lines(2, 1, new Set(["physics"])))).toEqual(["j0"]);
    expect(made.groups[1]?.gpuMilli).toBe(16_000);
    expect(made.indexOf("j2", new Set(["physics"]))).toBe(3);
    expect(made.indexOf("j1", new Set(["physics"]))).toBe(-1);
  });

  it.each(["", "group=team&sort=-gpus", "sort=name&phase=queued,running", "q=train&sort=priority"])(
    "are after any changes what sorting everything anew would give (%s)",
    (search) => {
      const pick = random(search.length + 7);
      const jobs = new Map<string, JobView>();
      const made = board(search, []);
      for (let round = 0; round < 60; round += 1) {
        const changed = new Set<string>();
        for (let one = 0; one < 25; one += 1) {
          const id = `j${pick(120)}`;
          changed.add(id);
          if (pick(5) === 0) jobs.delete(id);
          else {
            jobs.set(
              id,
              aJob({
                id,
                team: ["physics", "biology", "chemistry"][pick(3)] ?? "",
                name: ["train", "serve"][pick(2)] ?? "",
                phase: (["queued", "running", "succeeded"] as Phase[])[pick(3)] ?? "queued",
                priority: pick(4),
                gpu_milli: pick(5) * 1_000,
                submitted_at: NOON_NS - pick(50) * S,
              }),
            );
          }
        }
        made.apply(changed, jobs, NOON_NS);
        const anew = board(search, jobs.values());
        expect(told(made.lines(0, 999, OPEN))).toEqual(told(anew.lines(0, 999, OPEN)));
        expect(made.length(OPEN)).toBe(anew.length(OPEN));
        expect([...made.phases].filter(([, count]) => count).sort()).toEqual([...anew.phases].sort());
        for (const line of made.lines(0, 3, OPEN)) {
          if ("job" in line) expect(told(made.lines(made.indexOf(line.job.id, OPEN), 1, OPEN))).toEqual([line.job.id]);
        }
      }
    },
  );

  it("take a frame's worth of changes among 25,000 within a frame", () => {
    const jobs = new Map<string, JobView>();
    for (let index = 0; index < 25_000; index += 1) {
      const id = `j${index}`;
      jobs.set(id, aJob({ id, submitted_at: NOON_NS - index * S, team: `team-${index % 40}` }));
    }
    const made = board("", jobs.values());
    const spent: number[] = [];
    for (let frame = 0; frame < 120; frame += 1) {
      const changed: string[] = [];
      for (let one = 0; one < 20; one += 1) {
        const id = `new-${frame}-${one}`;
        jobs.set(id, aJob({ id, submitted_at: NOON_NS + frame * S }));
        jobs.delete(`j${frame * 20 + one}`);
        changed.push(id, `j${frame * 20 + one}`);
      }
      const before = performance.now();
      made.apply(changed, jobs, NOON_NS);
      spent.push(performance.now() - before);
    }
    spent.sort((one, two) => one - two);
    expect(spent[Math.floor(spent.length / 2)]).toBeLessThan(16);
  });
});
