import { describe, expect, it } from "vitest";
import type { AttachmentPhase, DeviceView, FabricView, FactView } from "../../wire";
import { isUnderWay, LANDING_MS, Pool, progress } from "./pool";

const device = (id: string, phase: AttachmentPhase): DeviceView => ({
  id,
  cluster: "atlas",
  type: "gpu",
  model: "A100",
  node: "flex-0001",
  fabric: "fabric",
  device_uuid: "",
  device_id: "",
  phase,
  origin: "request",
  request: "",
  attempt: 0,
  error: "",
  holders: [],
  since: 0,
});

const fabric = (free: number, attached: number): FabricView => ({
  name: "fabric",
  cluster: "atlas",
  driver: "fm",
  pool: [{ type: "gpu", model: "A100", free, attached }],
  breaker: "closed",
  error: "",
  retry_at: 0,
  in_flight: 0,
  limit: 4,
  orphans: 0,
  surveyed_at: 0,
});

const fact = (name: string, body: object | null = null, kind = "attachment"): FactView => ({
  id: name,
  seq: 1,
  time: 0,
  stream: "LOG_atlas",
  cluster: "atlas",
  writer: "composer",
  kind,
  subject_id: "d1",
  name,
  causes: [],
  trace: "",
  body: body ? JSON.stringify(body) : "",
});

const at = (pool: Pool, nowMs: number): number => {
  const moving = pool.moving.get("d1");
  return moving ? progress(moving, nowMs) : Number.NaN;
};

describe("a device of a pool", () => {
  it("leaves the pool when it is attaching, nears its node and is there when attached", () => {
    const pool = new Pool();
    pool.listed([], [fabric(8, 0)], 0, true);
    expect(pool.heard([fact("requested", { node: "flex-0001", model: "A100", fabric: "fabric" })], 100)).toBe(true);
    expect(at(pool, 5_000)).toBe(0);
    pool.heard([fact("attaching")], 5_000);
    const creeping = [5_000, 6_000, 9_000, 60_000].map((now) => at(pool, now));
    expect(creeping).toEqual([...creeping].sort((a, b) => a - b));
    expect(creeping[3]).toBeLessThan(0.9);
    pool.heard([fact("attached")], 60_000);
    expect(at(pool, 60_000)).toBeCloseTo(creeping[3] ?? 0, 5);
    expect(at(pool, 60_000 + LANDING_MS)).toBe(1);
  });

  it("goes back the same way when it is detached, and is then gone", () => {
    const pool = new Pool();
    pool.listed([device("d1", "online")], [fabric(7, 1)], 0, true);
    expect(pool.isBusy(0)).toBe(false);
    pool.heard([fact("detaching")], 1_000);
    expect(at(pool, 1_000)).toBe(1);
    expect(at(pool, 8_000)).toBeLessThan(0.6);
    pool.heard([fact("detached")], 8_000);
    expect(at(pool, 8_000 + LANDING_MS)).toBe(0);
    pool.sweep(8_000 + LANDING_MS);
    expect(pool.moving.size).toBe(0);
  });

  it("is seen moving also if only the composer's list tells of it, since its facts came without bodies", () => {
    const pool = new Pool();
    pool.listed([], [fabric(8, 0)], 0, true);
    pool.heard([fact("requested")], 10);
    expect(pool.moving.size).toBe(0);
    pool.listed([device("d1", "attaching")], [fabric(8, 0)], 300);
    expect(at(pool, 300)).toBe(0);
    expect(at(pool, 3_000)).toBeGreaterThan(0.2);
  });

  it("goes back if the list does not know it any more", () => {
    const pool = new Pool();
    pool.listed([device("d1", "online")], [fabric(7, 1)], 0, true);
    pool.listed([], [fabric(8, 0)], 1_000);
    expect(pool.moving.get("d1")?.leg).toBe("returning");
  });

  it("does not move for those who come when it is there already", () => {
    const pool = new Pool();
    pool.listed([device("d1", "visible"), device("d2", "failed")], [fabric(7, 1)], 0, true);
    expect([at(pool, 0), pool.moving.size]).toEqual([1, 1]);
  });

  it("is shown as failed for a while", () => {
    const pool = new Pool();
    pool.listed([device("d1", "attaching")], [fabric(8, 0)], 0, true);
    pool.heard([fact("failed")], 1_000);
    const moving = pool.moving.get("d1");
    expect(moving && [isUnderWay(moving, 1_500), isUnderWay(moving, 60_000)]).toEqual([true, false]);
  });

  it("is not counted as free once it is promised", () => {
    const pool = new Pool();
    pool.listed([device("d1", "requested"), device("d2", "online")], [fabric(7, 1)], 0, true);
    expect(pool.figures()[0]?.models).toEqual([{ type: "gpu", model: "A100", free: 6, reserved: 1, out: 1 }]);
  });

  it("leaves facts of other kinds alone, and asks again for those of fabrics", () => {
    const pool = new Pool();
    expect(pool.heard([fact("placed", null, "job")], 0)).toBe(false);
    expect(pool.heard([fact("breaker-opened", null, "fabric")], 0)).toBe(true);
  });

  it("is told apart from one of the same id and fabric in another cluster", () => {
    const pool = new Pool();
    pool.isOfSeveral = true;
    const west = { ...device("d1", "online"), cluster: "west" };
    pool.listed([device("d1", "attaching"), west], [fabric(8, 0), { ...fabric(4, 1), cluster: "west" }], 0, true);
    expect(pool.figures().map((one) => one.fabric.name)).toEqual(["atlas/fabric", "west/fabric"]);
    expect(pool.figures("west").flatMap((one) => one.models.map(({ free, reserved }) => [free, reserved]))).toEqual([
      [4, 0],
    ]);
    pool.heard([fact("attached")], 1_000);
    expect([...pool.moving.values()].map(({ cluster, leg }) => [cluster, leg])).toEqual([
      ["atlas", "arriving"],
      ["west", "node"],
    ]);
  });
});
