import { describe, expect, it } from "vitest";
import type { Idle, JobUse, TopRow, UseColumn } from "../../wire";
import { courseOf, HEIGHT, WIDTH } from "./course";
import { deviceShares, energyWords, gpuHours, pctWords, powerWords, shareWords, teamRows } from "./words";

function team(key: string, gpus: number): TopRow {
  return {
    key,
    name: "",
    team: key,
    queue: "",
    user: "",
    jobs: 1,
    gpus,
    idle: 0,
    busy_pct: 90,
    sm_active_pct: null,
    tensor_active_pct: null,
    memory_pct: 0,
    power_w: 0,
  };
}

function idle(...teams: [string, number][]): Idle {
  const rows = teams.map(([name, many]) => ({ team: name, held: 8, idle: many, jobs: 1, idle_s: 3_600 }));
  return { at: 0, after_s: 600, teams: rows, gpus: [], total: 0 };
}

function column(at: number, busy_pct: number, sm_active_pct: number | null): UseColumn {
  return { at, gpus: 8, busy_pct, sm_active_pct, tensor_active_pct: null, power_w: 0, memory_mib_max: 0 };
}

describe("the use of teams", () => {
  it("has first who leaves most idle, then who has most", () => {
    const rows = teamRows([team("a", 8), team("b", 16), team("c", 4)], idle(["c", 3], ["a", 0]));
    expect(rows.map((row) => row.team)).toEqual(["c", "b", "a"]);
  });

  it("knows a team of which only idle GPUs are told", () => {
    expect(teamRows([], idle(["d", 8]))).toMatchObject([{ team: "d", use: null, idle: { idle: 8 } }]);
    expect(teamRows([team("a", 1)], undefined)).toMatchObject([{ team: "a", idle: null }]);
  });
});

describe("the course of a job", () => {
  const of = (...columns: UseColumn[]) => courseOf({ columns, column_s: 60 } as unknown as JobUse);

  it("is nothing to draw before there are two columns", () => {
    expect(of()).toBeNull();
    expect(of(column(0, 50, 20))).toBeNull();
  });

  it("runs over the whole width, and leaves out what is not shown", () => {
    expect(of(column(0, 100, null), column(60e9, 50, null))).toEqual({
      busy: `0.0,0.0 ${WIDTH}.0,${(HEIGHT / 2).toFixed(1)}`,
      sm: "",
      fromNs: 0,
      toNs: 120e9,
    });
    expect(of(column(0, 100, 50), column(60e9, 50, 0))?.sm).toBe(
      `0.0,${(HEIGHT / 2).toFixed(1)} ${WIDTH}.0,${HEIGHT}.0`,
    );
  });
});

describe("words of use", () => {
  it.each([
    [powerWords(850), "850 W"],
    [powerWords(12_440), "12.4 kW"],
    [powerWords(1_250_000), "1.3 MW"],
    [pctWords(91.6), "92 %"],
    [pctWords(null), "not shown"],
    [gpuHours(5_400), "1.5"],
    [energyWords(0.4249), "0.42 kWh"],
    [energyWords(12.44), "12.4 kWh"],
    [energyWords(1_250), "1.3 MWh"],
    [shareWords(1, 8), "13 %"],
    [shareWords(0, 0), "–"],
  ])("%s", (said, words) => expect(said).toBe(words));

  it("a device's shares are of its own measured time", () => {
    const use = { measured_s: 200, busy_s: 100, sm_measured_s: 0, sm_active_s: 0 };
    expect(deviceShares({ node: "n", index: 0, uuid: "", use } as never)).toEqual({ busyPct: 50, smPct: null });
  });
});
