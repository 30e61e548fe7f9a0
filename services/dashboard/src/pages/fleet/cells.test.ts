import { beforeEach, describe, expect, it } from "vitest";
import type { JobView, Reading } from "../../wire";
import { type Changed, FleetCells } from "./cells";
import { DirtySet } from "./dirty";
import { parseFilter } from "./filter";
import { jobColour } from "./jobs";
import { COLOUR, DIM, HATCHED, JOINED, Kind, kindOf } from "./look";
import { AT, TeamSlots } from "./palette";
import { jobView, SYNTHETIC, SyntheticFleet } from "./synthetic";

const change = (part: Partial<Changed>): Changed => ({
  reset: false,
  jobs: new Set(),
  goneJobs: new Set(),
  nodes: new Set(),
  goneNodes: new Set(),
  telemetry: new Set(),
  ...part,
});

const job = (id: string, devices: number[], milli = 1000, node = "gpu-0001"): JobView =>
  jobView({
    id,
    team: "physics",
    phase: "running",
    at: 1,
    slots: [{ group: 0, replica: 0, node, devices, gpu_milli: milli, gpus: 0, places: [] }],
  });

const reading = (utilisation: number): Reading => [utilisation, 50, 1000, 300];

describe("cells of a fleet", () => {
  let fleet: SyntheticFleet;
  let cells: FleetCells;

  beforeEach(() => {
    fleet = new SyntheticFleet({ ...SYNTHETIC, nodes: 4, load: 0 });
    cells = new FleetCells(new TeamSlots());
    cells.apply(fleet, change({ reset: true }));
    cells.dirty.clear();
  });

  const place = (row: JobView): void => {
    fleet.jobs.set(row.id, row);
    cells.apply(fleet, change({ jobs: new Set([row.id]) }));
  };
  const look = (cell: number): number => cells.look[cell] as number;

  it("are free until a job holds them, and again when it is gone", () => {
    place(job("a", [2, 3]));
    expect([2, 3].map((cell) => kindOf(look(cell)))).toEqual([Kind.solid, Kind.solid]);
    fleet.jobs.delete("a");
    cells.apply(fleet, change({ goneJobs: new Set(["a"]) }));
    expect(look(2)).toBe(look(0));
  });

  it("are dirty only where the eye sees a change", () => {
    place(job("a", [2, 3]));
    expect(cells.dirty.size).toBe(2);
    cells.dirty.clear();
    cells.apply(fleet, change({ jobs: new Set(["a"]), nodes: new Set(["gpu-0001"]) }));
    expect(cells.dirty.size).toBe(0);
  });

  it("are joined within one job and not between two", () => {
    place(job("a", [0, 1]));
    place(job("b", [2, 3]));
    expect([0, 1, 2, 3].map((cell) => (look(cell) & JOINED) !== 0)).toEqual([true, false, true, false]);
  });

  it("give neighbouring jobs different colours", () => {
    for (const [at, id] of ["a", "b", "c", "d", "e", "f", "g", "h"].entries()) {
      place(job(id, [at]));
    }
    expect(new Set(Array.from({ length: 8 }, (_, cell) => look(cell) & COLOUR)).size).toBe(8);
  });

  it("are split while several jobs share one, and whole again after", () => {
    place(job("half", [5], 500));
    place(job("quarter", [5], 250));
    expect(kindOf(look(5))).toBe(Kind.split);
    expect(cells.holders.shares(5)?.map((part) => part.milli)).toEqual([500, 250]);
    fleet.jobs.clear();
    cells.apply(fleet, change({ goneJobs: new Set(["half", "quarter"]) }));
    expect(kindOf(look(5))).toBe(Kind.free);
  });

  it("belong to whoever came last if the end of the job before is told later", () => {
    place(job("old", [1]));
    place(job("new", [1]));
    fleet.jobs.delete("old");
    cells.apply(fleet, change({ goneJobs: new Set(["old"]) }));
    expect(cells.holders.whole[1]).toBe(cells.jobs.numberOf("new"));
  });

  it("follow a job that moves to other places", () => {
    place(job("a", [0, 1]));
    place(job("a", [4], 1000, "gpu-0002"));
    expect(kindOf(look(0))).toBe(Kind.free);
    expect(kindOf(look(8 + 4))).toBe(Kind.solid);
  });

  it("show measurements by steps of a ramp, and free ones apart from idle ones", () => {
    place(job("a", [0]));
    fleet.telemetry.set("gpu-0001", [reading(0), ...Array.from({ length: 7 }, () => reading(0))]);
    cells.setColourBy("utilisation");
    cells.apply(fleet, change({ telemetry: new Set(["gpu-0001"]) }));
    expect([look(0), kindOf(look(1))]).toEqual([AT.utilisation, Kind.free]);
    cells.dirty.clear();
    fleet.telemetry.set("gpu-0001", [reading(1), ...Array.from({ length: 7 }, () => reading(99))]);
    cells.apply(fleet, change({ telemetry: new Set(["gpu-0001"]) }));
    expect(cells.dirty.size).toBe(0);
  });

  it("change with the number that they bear, once they bear any", () => {
    place(job("a", [0]));
    const read = (utilisation: number): void => {
      fleet.telemetry.set("gpu-0001", [reading(utilisation), ...Array.from({ length: 7 }, () => reading(0))]);
      cells.apply(fleet, change({ telemetry: new Set(["gpu-0001"]) }));
    };
    cells.setColourBy("utilisation");
    cells.setWorded(true);
    read(51);
    cells.dirty.clear();
    read(52);
    expect([cells.dirty.size, cells.wordOf(0)]).toEqual([1, "52"]);
    cells.setWorded(false);
    cells.dirty.clear();
    read(53);
    expect(cells.dirty.size).toBe(0);
  });

  it("are hatched where the node may not be used, and lost with it", () => {
    const node = fleet.nodes.get("gpu-0001");
    expect(node).toBeDefined();
    if (!node) return;
    fleet.nodes.set("gpu-0001", { ...node, usable: false });
    cells.apply(fleet, change({ nodes: new Set(["gpu-0001"]) }));
    expect([look(0) & HATCHED, cells.stateOf(0)]).toEqual([HATCHED, "withheld"]);
    fleet.nodes.set("gpu-0001", { ...node, lost: true });
    cells.apply(fleet, change({ nodes: new Set(["gpu-0001"]) }));
    expect([kindOf(look(0)), cells.stateOf(0)]).toEqual([Kind.lost, "lost"]);
  });

  it("show a device that came in the first empty place before it is read", () => {
    const node = fleet.nodes.get("gpu-0001");
    if (!node) return expect.fail("the fleet has no node");
    fleet.nodes.set("gpu-0001", { ...node, gpus: 2 });
    fleet.telemetry.set("gpu-0001", [null, reading(0), null, null]);
    expect(cells.apply(fleet, change({ nodes: new Set(["gpu-0001"]), telemetry: new Set(["gpu-0001"]) }))).toBe(false);
    expect(Array.from(cells.present.slice(0, 4))).toEqual([1, 1, 0, 0]);
    expect(cells.stateOf(2)).toBe("absent");
  });

  it("are arranged anew when a node gets more places or leaves", () => {
    const node = fleet.nodes.get("gpu-0004");
    if (!node) return expect.fail("the fleet has no node");
    expect(cells.setHints(new Map([["gpu-0004", 12]]), fleet)).toBe(true);
    expect(cells.count).toBe(36);
    fleet.nodes.delete("gpu-0004");
    expect(cells.apply(fleet, change({ goneNodes: new Set(["gpu-0004"]) }))).toBe(true);
    expect(cells.count).toBe(24);
  });

  it("step back where the filter does not find them", () => {
    place(job("a", [0]));
    cells.setFilter(parseFilter("team:physics"));
    expect([look(0) & DIM, look(1) & DIM]).toEqual([0, DIM]);
    cells.setFilter(parseFilter("state:free node:gpu-0002"));
    expect([look(1) & DIM, look(9) & DIM]).toEqual([DIM, 0]);
  });

  it("step back for a job that is pointed at", () => {
    place(job("a", [0]));
    place(job("b", [1]));
    cells.emphasise({ job: "b" });
    expect([look(0) & DIM, look(1) & DIM]).toEqual([DIM, 0]);
    cells.emphasise({});
    expect(look(0) & DIM).toBe(0);
  });

  it("step back for a team that is pointed at", () => {
    place(job("a", [0]));
    cells.emphasise({ team: "physics" });
    expect([look(0) & DIM, look(1) & DIM]).toEqual([0, DIM]);
    cells.emphasise({ team: "vision" });
    expect(look(0) & DIM).toBe(DIM);
  });
});

describe("a job's colour", () => {
  it("is its own unless a neighbour has it", () => {
    const own = jobColour("some-job", 0);
    expect(jobColour("some-job", 0)).toBe(own);
    expect(jobColour("some-job", 1 << own)).not.toBe(own);
    expect(jobColour("some-job", 0xffff)).toBe(own);
  });
});

describe("dirty cells", () => {
  it("are taken once each, in the order in which they changed", () => {
    const dirty = new DirtySet(4);
    const taken: number[] = [];
    for (const cell of [2, 0, 2, 3]) {
      dirty.add(cell);
    }
    taken.push(dirty.take(), dirty.take());
    for (const cell of [2, 1, 3]) {
      dirty.add(cell);
    }
    while (dirty.size > 0) {
      taken.push(dirty.take());
    }
    expect([taken, dirty.take()]).toEqual([[2, 0, 3, 2, 1], -1]);
  });
});

describe("folding changes one by one", () => {
  it("ends where looking at everything at once ends", () => {
    const fleet = new SyntheticFleet({ ...SYNTHETIC, nodes: 60 });
    const followed = new FleetCells(new TeamSlots(SYNTHETIC.teams));
    followed.apply(fleet, change({ reset: true }));
    followed.setColourBy("team");
    for (let round = 0; round < 40; round++) {
      followed.apply(fleet, fleet.turn(5));
      followed.apply(fleet, fleet.measure());
    }
    const fresh = new FleetCells(new TeamSlots(SYNTHETIC.teams));
    fresh.setColourBy("team");
    fresh.apply(fleet, change({ reset: true }));
    const plain = (looks: Uint32Array): number[] => Array.from(looks, (look) => look & 0xffff);
    expect(plain(followed.look)).toEqual(plain(fresh.look));
    expect(followed.jobs.size).toBe(fresh.jobs.size);
  });
});
