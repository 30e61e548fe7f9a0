import { describe, expect, it } from "vitest";
import type { LiveSlice } from "../wire";
import { BUFFER_ITEMS_MAX, BUFFER_SLICES_MAX, Join, SNAPSHOT_EVERY_MS_MAX, STALE_AFTER_MS } from "./join";
import { fact, nodeRow, slice, snapshot } from "./samples";

const seqs = (seq: number) => ({ seqs: { atlas: { public: seq } } });

function joinedAt(seq: number, nowMs = 0): Join {
  const join = new Join();
  join.connected(nowMs);
  join.snapshotAsked();
  join.snapshot(snapshot(seqs(seq)), nowMs);
  return join;
}

const applied = (join: Join, ...slices: LiveSlice[]) =>
  slices.flatMap((one) => join.slice(one, 0)).map((one) => one.seq);

describe("joining", () => {
  it("asks for a snapshot when its subscriptions stand, and only once", () => {
    const join = new Join();
    expect(join.snapshotDueAtMs).toBe(Number.POSITIVE_INFINITY);
    join.connected(5);
    expect(join.snapshotDueAtMs).toBe(5);
    join.snapshotAsked();
    expect(join.snapshotDueAtMs).toBe(Number.POSITIVE_INFINITY);
  });

  it("keeps what comes before the snapshot and applies what is above it afterwards", () => {
    const join = new Join();
    join.connected(0);
    join.snapshotAsked();
    expect(applied(join, slice({ seq: 8, prev: 5 }), slice({ seq: 12, prev: 8 }))).toEqual([]);
    const next = join.snapshot(snapshot(seqs(8)), 0);
    expect(next.map((one) => one.seq)).toEqual([12]);
    expect(join.joined).toBe(true);
  });

  it("applies a slice that the snapshot cut through", () => {
    const join = joinedAt(10);
    expect(join.slice(slice({ seq: 14, prev: 7 }), 0)).toEqual([slice({ seq: 14, prev: 7 })]);
  });

  it("takes an audience that had nothing before as beginning at nothing", () => {
    const join = joinedAt(10);
    expect(applied(join, slice({ audience: "physics", seq: 11, prev: 0 }))).toEqual([11]);
  });

  it("takes an audience that is not named as standing where the snapshot says for all others", () => {
    const join = new Join();
    join.connected(0);
    join.snapshot(snapshot({ seqs: { atlas: { public: 10, "*": 9 } } }), 0);
    expect(applied(join, slice({ audience: "physics", seq: 11, prev: 8 }))).toEqual([11]);
    expect(applied(join, slice({ audience: "chemistry", seq: 12, prev: 10 }))).toEqual([]);
    expect(join.gaps).toBe(1);
  });
});

describe("following", () => {
  it("drops what it has and what it had", () => {
    const join = joinedAt(10);
    expect(applied(join, slice({ seq: 10, prev: 9 }), slice({ seq: 4, prev: 3 }))).toEqual([]);
    expect(join.joined).toBe(true);
  });

  it("follows the chain of each audience of each log by itself", () => {
    const join = joinedAt(10);
    const fed = slice({ cluster: "fed", seq: 3, prev: 0 });
    expect(applied(join, slice({ seq: 11, prev: 10 }), fed, slice({ seq: 15, prev: 11 }))).toEqual([11, 3, 15]);
    expect([join.seq("atlas", "public"), join.seq("fed", "public")]).toEqual([15, 3]);
  });

  it("sees a lost slice by the next one, and asks for a snapshot", () => {
    const join = joinedAt(10);
    expect(applied(join, slice({ seq: 20, prev: 15 }))).toEqual([]);
    expect(join.joined).toBe(false);
    expect(join.gaps).toBe(1);
    expect(join.snapshotDueAtMs).toBeLessThan(Number.POSITIVE_INFINITY);
    expect(join.snapshot(snapshot(seqs(15)), 1).map((one) => one.seq)).toEqual([20]);
  });

  it("sees the loss of the last slice by a pulse", () => {
    const join = joinedAt(10);
    join.slice(slice({ seq: 12, prev: 12 }), 0);
    expect(join.joined).toBe(false);
  });

  it("is not disturbed by a pulse of where it stands", () => {
    const join = joinedAt(10);
    expect(applied(join, slice({ seq: 10, prev: 10 }))).toEqual([]);
    expect(join.joined).toBe(true);
  });

  it("takes what two connections deliver once", () => {
    const join = joinedAt(10);
    const twice = [slice({ seq: 11, prev: 10 }), slice({ seq: 11, prev: 10 }), slice({ seq: 12, prev: 11 })];
    expect(applied(join, ...twice)).toEqual([11, 12]);
    expect(join.gaps).toBe(0);
  });
});

describe("a moment that is told in several slices", () => {
  const part = (number: number, of: number, seq = 12, prev = 12): LiveSlice =>
    slice({ seq, prev, nodes: [nodeRow(`n${number}`)], part: number, parts: of });
  const first = part(1, 3, 12, 10);

  it("is applied part by part", () => {
    const join = joinedAt(10);
    expect(applied(join, first, part(2, 3), part(3, 3), slice({ seq: 13, prev: 12 }))).toEqual([12, 12, 12, 13]);
    expect(join.gaps).toBe(0);
  });

  it.each([
    ["a later part", part(3, 3)],
    ["a pulse", slice({ seq: 12, prev: 12 })],
    ["the next moment", slice({ seq: 13, prev: 12 })],
  ])("is missed to its end when %s comes instead of the part that is owed", (_, other) => {
    const join = joinedAt(10);
    expect(applied(join, first, other)).toEqual([12]);
    expect(join.gaps).toBe(1);
  });

  it("is taken once when two connections deliver it", () => {
    const join = joinedAt(10);
    expect(applied(join, first, part(2, 3), first, part(2, 3), part(3, 3), part(3, 3))).toEqual([12, 12, 12]);
    expect(join.gaps).toBe(0);
  });

  it("is in a snapshot that stands at its end, whatever of it comes afterwards", () => {
    const join = joinedAt(12);
    expect(applied(join, part(2, 3), part(3, 3), slice({ seq: 13, prev: 12 }))).toEqual([13]);
    expect(join.gaps).toBe(0);
  });
});

describe("gaps", () => {
  it("answers one at once after a calm time, and ever more rarely if they go on", () => {
    const join = joinedAt(10);
    join.slice(slice({ seq: 30, prev: 20 }), 60_000);
    expect(join.snapshotDueAtMs).toBe(60_000);
    const waits: number[] = [];
    for (let nowMs = 60_000, round = 0; round < 8; round += 1) {
      join.snapshotAsked();
      join.snapshot(snapshot(seqs(10)), nowMs); // still without what is missing
      waits.push(join.snapshotDueAtMs - nowMs);
      nowMs = join.snapshotDueAtMs;
    }
    expect(waits).toEqual([500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 15_000]);
  });

  it("keeps what waits behind a gap for the next snapshot", () => {
    const join = joinedAt(10);
    applied(join, slice({ seq: 30, prev: 20 }), slice({ seq: 31, prev: 30 }));
    join.snapshotAsked();
    expect(join.snapshot(snapshot(seqs(15)), 0)).toEqual([]);
    join.snapshotAsked();
    expect(join.snapshot(snapshot(seqs(20)), 0).map((one) => one.seq)).toEqual([30, 31]);
  });

  it("waits as long as the gateway asked after a refusal", () => {
    const join = new Join();
    join.connected(0);
    join.snapshotAsked();
    join.snapshotFailed(100, { retryAfterMs: 5_000 });
    expect(join.snapshotDueAtMs).toBe(5_100);
  });

  it("waits with a bound, whatever fails", () => {
    const join = new Join();
    join.connected(0);
    for (let round = 0; round < 40; round += 1) {
      join.snapshotAsked();
      join.snapshotFailed(0, { jitter: 1 });
    }
    expect(join.snapshotDueAtMs).toBe(SNAPSHOT_EVERY_MS_MAX * 2);
  });

  it("bounds its buffer; what fell out of it is found missing", () => {
    const join = new Join();
    join.connected(0);
    join.snapshotAsked();
    for (let seq = 1; seq <= BUFFER_SLICES_MAX + 5; seq += 1) {
      join.slice(slice({ seq, prev: seq - 1 }), 0);
    }
    expect(join.dropped).toBe(5);
    expect(join.snapshot(snapshot(seqs(2)), 0)).toEqual([]);
    expect(join.joined).toBe(false);
  });
});

describe("a long time without a snapshot", () => {
  it("costs no more than a bound of rows and facts", () => {
    const join = new Join();
    join.connected(0);
    join.snapshotAsked();
    const facts = Array.from({ length: 500 }, (_, number) => fact(number));
    for (let seq = 1; seq <= 100; seq += 1) {
      join.slice(slice({ seq, prev: seq - 1, facts }), 0);
    }
    expect(join.dropped).toBe(100 - BUFFER_ITEMS_MAX / 500);
    expect(join.snapshot(snapshot(seqs(60)), 0).map((one) => one.seq)).toHaveLength(40);
  });
});

describe("breaks and silence", () => {
  it("needs no snapshot after a break in which nothing happened", () => {
    const join = joinedAt(10);
    join.connected(9_000);
    expect(applied(join, slice({ seq: 10, prev: 10 }), slice({ seq: 11, prev: 10 }))).toEqual([11]);
    expect(join.gaps).toBe(0);
  });

  it("takes one after a break in which something did", () => {
    const join = joinedAt(10);
    join.connected(9_000);
    join.slice(slice({ seq: 14, prev: 14 }), 9_500);
    expect(join.joined).toBe(false);
  });

  it("tells how long the quietest log has been silent", () => {
    const join = joinedAt(10);
    expect(join.silentMs(STALE_AFTER_MS + 1)).toBe(STALE_AFTER_MS + 1);
    join.slice(slice({ seq: 10, prev: 10 }), 2_000);
    join.slice(slice({ cluster: "fed", seq: 1, prev: 0 }), 2_500);
    expect(join.silentMs(3_000)).toBe(1_000);
  });

  it("expects no pulse of a log that never had anything", () => {
    expect(joinedAt(0).silentMs(60_000)).toBe(0);
  });

  it("counts silence anew from a reconnection", () => {
    const join = joinedAt(10);
    join.connected(60_000);
    expect(join.silentMs(60_500)).toBe(500);
  });
});
