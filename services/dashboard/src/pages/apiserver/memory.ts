/** Memory of API servers over time as lines in a box: pure geometry. */

import type { ApiServerReplica } from "../../wire";

export const WIDTH = 600;
export const HEIGHT = 160;

export interface Line {
  name: string;
  /** Points of an SVG polyline in a box of WIDTH by HEIGHT. */
  points: string;
  newestMib: number;
}

export interface MemoryChart {
  lines: Line[];
  fromNs: number;
  toNs: number;
  /** Top of the box. */
  maxMib: number;
}

/** One line for each replica that has been seen at least twice; null if there is none. */
export function chartOf(replicas: readonly ApiServerReplica[]): MemoryChart | null {
  const drawn = replicas.filter((replica) => replica.memory.length > 1);
  const all = drawn.flatMap((replica) => replica.memory);
  if (!all.length) {
    return null;
  }
  const fromNs = Math.min(...all.map((point) => point.at));
  const toNs = Math.max(...all.map((point) => point.at));
  const maxMib = roundUp(Math.max(...all.map((point) => point.memory_mib)));
  const x = (at: number): number => (toNs > fromNs ? (WIDTH * (at - fromNs)) / (toNs - fromNs) : WIDTH);
  const y = (mib: number): number => HEIGHT - (HEIGHT * mib) / maxMib;
  const lines = drawn.map((replica) => ({
    name: replica.name,
    points: replica.memory.map((point) => `${x(point.at).toFixed(1)},${y(point.memory_mib).toFixed(1)}`).join(" "),
    newestMib: replica.memory.at(-1)?.memory_mib ?? 0,
  }));
  return { lines, fromNs, toNs, maxMib };
}

/** The next of 1, 2, 5 times a power of ten. */
export function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return power * ([1, 2, 5].find((step) => step * power >= value) ?? 10);
}

/** "640 MiB", "1.4 GiB". */
export function memoryWords(mib: number): string {
  return mib < 1024 ? `${Math.round(mib)} MiB` : `${(mib / 1024).toFixed(1)} GiB`;
}

/** "12 kB", "40 MB". */
export function bytesWords(bytes: number): string {
  const steps: [number, string][] = [
    [1e9, "GB"],
    [1e6, "MB"],
    [1e3, "kB"],
  ];
  const [by, unit] = steps.find(([size]) => bytes >= size) ?? [1, "B"];
  return `${(bytes / by).toFixed(by > 1 && bytes / by < 10 ? 1 : 0)} ${unit}`;
}
