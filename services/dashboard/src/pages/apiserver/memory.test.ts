import { describe, expect, it } from "vitest";
import type { ApiServerReplica } from "../../wire";
import { bytesWords, chartOf, HEIGHT, memoryWords, roundUp, WIDTH } from "./memory";

function replica(name: string, ...mib: number[]): ApiServerReplica {
  const memory = mib.map((memory_mib, index) => ({ at: 1e18 + index * 15e9, memory_mib }));
  return {
    name,
    version: "",
    started_at: 0,
    memory_mib: mib.at(-1) ?? 0,
    cpu_cores: 0,
    in_flight: 0,
    in_flight_mutating: 0,
    requests_per_s: 0,
    lists_per_s: 0,
    watches: 0,
    memory,
    seen_at: 0,
    error: "",
  };
}

describe("the memory of API servers", () => {
  it("is nothing to draw before a replica was seen twice", () => {
    expect(chartOf([])).toBeNull();
    expect(chartOf([replica("a", 500)])).toBeNull();
  });

  it("runs over the whole width, on one scale for all", () => {
    const chart = chartOf([replica("a", 400, 800), replica("b", 100, 100)]);
    expect(chart?.maxMib).toBe(1000);
    expect(chart?.lines[0]?.points).toBe(`0.0,${(HEIGHT * 0.6).toFixed(1)} ${WIDTH}.0,${(HEIGHT * 0.2).toFixed(1)}`);
    expect(chart?.lines[1]?.newestMib).toBe(100);
  });

  it.each([
    [0, 1],
    [3, 5],
    [1000, 1000],
    [1001, 2000],
    [7000, 10000],
  ])("%d is topped by %d", (value, top) => expect(roundUp(value)).toBe(top));

  it("is told in units that people read", () => {
    expect(memoryWords(640.4)).toBe("640 MiB");
    expect(memoryWords(2094)).toBe("2.0 GiB");
    expect(bytesWords(40_100_000)).toBe("40 MB");
    expect(bytesWords(1_540)).toBe("1.5 kB");
    expect(bytesWords(12)).toBe("12 B");
  });
});
