/** A job's GPUs over time: what was kept, with what comes, thinned to lines that can be drawn. Pure. */

import type { JobReadings, JobView, Reading } from "../../wire";

export const MEASURES = [
  { name: "utilisation", title: "Utilization", unit: "%", place: 0, most: 100 },
  { name: "memory", title: "Memory", unit: "GiB", place: 2, most: 0 },
  { name: "power", title: "Power", unit: "W", place: 3, most: 0 },
  { name: "temperature", title: "Temperature", unit: "°C", place: 1, most: 0 },
] as const;

export type Measure = (typeof MEASURES)[number];

const MIB_PER_GIB = 1_024;
const COLUMNS_MAX = 1_200; // kept; older ones make room
const IDLE_PCT = 5;
const LATE_COLUMNS_MAX = 2; // nodes do not report in step: so long the last reading stands for the next

/** One moment: its readings by device, in the order of `devices`. */
interface Column {
  readonly at: number;
  readonly values: readonly (Reading | null)[];
}

/** devices: `<node>/<index>`, in order. columns: by time. */
export interface Readings {
  readonly devices: readonly string[];
  readonly columns: readonly Column[];
}

export const NO_READINGS: Readings = { devices: [], columns: [] };

/** The names of the job's GPUs, in the order of its nodes. */
export function devicesOf(job: JobView): readonly string[] {
  const names = job.slots.flatMap((slot) => slot.devices.map((index) => `${slot.node}/${index}`));
  return [...new Set(names)].sort((one, two) => one.localeCompare(two, "en", { numeric: true }));
}

/** From the API's answer. */
export function fromKept(kept: JobReadings): Readings {
  const devices = Object.keys(kept.devices).sort((one, two) => one.localeCompare(two, "en", { numeric: true }));
  const columns = kept.at.map((at, index) => ({
    at,
    values: devices.map((name) => kept.devices[name]?.[index] ?? null),
  }));
  return { devices, columns: columns.slice(-COLUMNS_MAX) };
}

/**
 * With one more moment, read from the newest of each node; unchanged if no device of the job is among them or if the
 * moment is not newer than the last.
 */
export function withLive(
  readings: Readings,
  devices: readonly string[],
  newest: ReadonlyMap<string, readonly (Reading | null)[]>,
  atNs: number,
): Readings {
  const last = readings.columns[readings.columns.length - 1];
  if (last && atNs <= last.at) return readings;
  const known = [...new Set([...readings.devices, ...devices])];
  const values = known.map((name) => (devices.includes(name) ? readingOf(name, newest) : null));
  if (values.every((value) => value === null)) return readings;
  return { devices: known, columns: [...readings.columns, { at: atNs, values }].slice(-COLUMNS_MAX) };
}

/** Over all devices at one moment; null where none was read. */
export interface Point {
  readonly at: number;
  readonly mean: number;
  readonly least: number;
  readonly most: number;
}

/** The course of one measure over all devices, at most `columns` points; of several moments in one, their mean. */
export function course(readings: Readings, measure: Measure, columns: number): readonly Point[] {
  const points: Point[] = [];
  for (const bucket of buckets(readings.columns, columns)) {
    let [sum, count, least, most] = [0, 0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    for (const column of bucket) {
      for (const value of column.values) {
        if (!value) continue;
        const one = readOf(value, measure);
        [sum, count, least, most] = [sum + one, count + 1, Math.min(least, one), Math.max(most, one)];
      }
    }
    if (count) points.push({ at: bucket[bucket.length - 1]?.at ?? 0, mean: sum / count, least, most });
  }
  return points;
}

/** One device as a row of a heat map: a value per bucket, null where none was read for a while. */
export function deviceRow(
  readings: Readings,
  device: number,
  measure: Measure,
  columns: number,
): readonly (number | null)[] {
  let [kept, keptFor]: [number | null, number] = [null, 0];
  return buckets(readings.columns, columns).map((bucket) => {
    const values = bucket
      .map((column) => column.values[device])
      .filter((value) => value !== null && value !== undefined);
    if (values.length) {
      [kept, keptFor] = [values.reduce((sum, value) => sum + readOf(value, measure), 0) / values.length, 0];
    } else {
      keptFor += 1;
    }
    return keptFor <= LATE_COLUMNS_MAX ? kept : null;
  });
}

/** What the measure may reach: its own bound, or the most that was read, rounded up. */
export function ceilingOf(points: readonly Point[], measure: Measure): number {
  if (measure.most) return measure.most;
  const most = Math.max(0, ...points.map((point) => point.most));
  const step = 10 ** Math.floor(Math.log10(most || 1));
  return Math.max(1, Math.ceil(most / step) * step);
}

/** What the readings say in a sentence, from the utilisation of the whole stretch. */
export function verdict(readings: Readings): { meanPct: number; idle: readonly string[]; words: string } | null {
  const perDevice = readings.devices.map((name, index) => ({ name, mean: meanOf(readings, index) }));
  const read = perDevice.filter((one) => one.mean !== null) as { name: string; mean: number }[];
  if (!read.length) return null;
  const meanPct = read.reduce((sum, one) => sum + one.mean, 0) / read.length;
  const idle = read.filter((one) => one.mean < IDLE_PCT).map((one) => one.name);
  const told = idle.length
    ? idle.length === read.length
      ? "all of its GPUs are idle"
      : `${idle.length} of ${read.length} GPUs stand idle: ${listed(idle)}`
    : `all ${read.length} GPUs at work`;
  return { meanPct, idle, words: read.length === 1 && !idle.length ? "its GPU is busy" : told };
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, 3).join(", ");
  return names.length > 3 ? `${shown} and ${names.length - 3} more` : shown;
}

function meanOf(readings: Readings, device: number): number | null {
  let [sum, count] = [0, 0];
  for (const column of readings.columns) {
    const value = column.values[device];
    if (value) [sum, count] = [sum + value[0], count + 1];
  }
  return count ? sum / count : null;
}

function buckets(columns: readonly Column[], most: number): readonly (readonly Column[])[] {
  const size = Math.max(1, Math.ceil(columns.length / Math.max(1, most)));
  const found: (readonly Column[])[] = [];
  for (let start = 0; start < columns.length; start += size) found.push(columns.slice(start, start + size));
  return found;
}

function readingOf(device: string, newest: ReadonlyMap<string, readonly (Reading | null)[]>): Reading | null {
  const cut = device.lastIndexOf("/");
  return newest.get(device.slice(0, cut))?.[Number(device.slice(cut + 1))] ?? null;
}

function readOf(reading: Reading, measure: Measure): number {
  const value = reading[measure.place];
  return measure.name === "memory" ? value / MIB_PER_GIB : value;
}
