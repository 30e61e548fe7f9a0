/** Values as people read them, the same words and numbers that `muster queue` and `muster why` print. Pure. */

import { milliHeld } from "../../slots";
import type { JobView } from "../../wire";

export const NS_PER_S = 1e9;
const MINUTE_S = 60;
const HOUR_S = 3_600;
const DAY_S = 86_400;
const PLACES_CHARS_MAX = 60;

export const TERMINAL: ReadonlySet<string> = new Set(["succeeded", "failed", "cancelled", "timed-out"]);

export const PHASES = [
  "submitted",
  "queued",
  "placed",
  "running",
  "stopping",
  "succeeded",
  "failed",
  "cancelled",
  "timed-out",
] as const;

/** `[days-]hours:minutes:seconds` as squeue writes it; below a minute with tenths. */
export function duration(seconds: number): string {
  if (seconds < MINUTE_S) return `${Math.max(seconds, 0).toFixed(1)}s`;
  const whole = Math.floor(seconds);
  const two = (number: number) => String(number).padStart(2, "0");
  const second = whole % 60;
  const minute = Math.floor(whole / 60) % 60;
  const hour = Math.floor(whole / HOUR_S) % 24;
  const days = Math.floor(whole / DAY_S);
  if (days) return `${days}-${two(hour)}:${two(minute)}:${two(second)}`;
  return hour ? `${hour}:${two(minute)}:${two(second)}` : `${minute}:${two(second)}`;
}

/** A length of time in its two largest units: `40 s`, `12 min`, `3 h 20 min`, `2 d 4 h`. */
export function long(seconds: number): string {
  const whole = Math.round(seconds);
  if (whole < MINUTE_S) return `${whole} s`;
  if (whole < HOUR_S) return `${Math.floor(whole / MINUTE_S)} min`;
  const [large, small, names] =
    whole >= DAY_S ? ([DAY_S, HOUR_S, ["d", "h"]] as const) : ([HOUR_S, MINUTE_S, ["h", "min"]] as const);
  const rest = Math.floor((whole % large) / small);
  return `${Math.floor(whole / large)} ${names[0]}${rest ? ` ${rest} ${names[1]}` : ""}`;
}

/** A short length of time of the control plane's own work, three digits: `0.8 ms`, `12.5 ms`, `3.21 s`; from a minute on as `long`. */
export function brief(seconds: number): string {
  if (seconds < 1) return `${Number((seconds * 1e3).toPrecision(3))} ms`;
  return seconds < MINUTE_S ? `${Number(seconds.toPrecision(3))} s` : long(seconds);
}

/** `14:05`, `Sun 22 Nov 14:05`, or with the year where it is another one; in `zone` or this machine's. */
export function clock(atNs: number, nowNs: number, zone?: string): string {
  const [at, now] = [parts(atNs, zone), parts(nowNs, zone)];
  const time = `${at.hour}:${at.minute}`;
  if (at.year !== now.year) return `${at.year}-${at.month}-${at.day} ${time}`;
  if (at.month === now.month && at.day === now.day) return time;
  return `${at.weekday} ${Number(at.day)} ${at.monthName} ${time}`;
}

/** `in 12 min`, `now`, `3 h 20 min ago`. */
export function distance(atNs: number, nowNs: number): string {
  const seconds = Math.round((atNs - nowNs) / NS_PER_S);
  if (seconds === 0) return "now";
  return seconds > 0 ? `in ${long(seconds)}` : `${long(-seconds)} ago`;
}

/** How long ago in its largest unit, for narrow columns: `40 s ago`, `3 h ago`. */
export function ago(atNs: number, nowNs: number): string {
  const seconds = Math.max(0, Math.round((nowNs - atNs) / NS_PER_S));
  const [unit, name] =
    seconds < MINUTE_S
      ? [1, "s"]
      : seconds < HOUR_S
        ? [MINUTE_S, "min"]
        : seconds < DAY_S
          ? [HOUR_S, "h"]
          : [DAY_S, "d"];
  return `${Math.floor(seconds / unit)} ${name} ago`;
}

/** Clock time and how far it is: `14:05 (in 12 min)`. */
export function when(atNs: number, nowNs: number, zone?: string): string {
  return `${clock(atNs, nowNs, zone)} (${distance(atNs, nowNs)})`;
}

/** Thousandths of a GPU as GPUs: `0.5`, `8`; `-` for no bound. */
export function gpus(milli: number | null): string {
  return milli === null ? "-" : `${milli / 1000}`;
}

/** Thousandths that the job holds now. */
export function heldMilli(job: JobView): number {
  let held = 0;
  for (const slot of job.slots) held += milliHeld(slot);
  return held;
}

/** GPUs that the job asks for; `8/32` for an elastic one that has fewer now. */
export function heldGpus(job: JobView): string {
  const held = heldMilli(job);
  const asked = gpus(job.gpu_milli);
  return !held || held === job.gpu_milli || TERMINAL.has(job.phase) ? asked : `${gpus(held)}/${asked}`;
}

/** Seconds that squeue's TIME would show: run time if it ran, else time since submission. */
export function timeInPhaseS(job: JobView, nowNs: number): number {
  const end = job.ended_at || nowNs;
  return Math.max(0, end - (job.running_at || job.submitted_at || end)) / NS_PER_S;
}

/** squeue's NODELIST(REASON) without its brackets, with the start of a job that has a reservation. */
export function placeOrReason(job: JobView, nowNs: number): string {
  if (job.nodes.length) return nodeList(job.nodes);
  const starts = job.reserved_at ? `starts ${clock(job.reserved_at, nowNs)}` : "";
  return [job.reason, starts].filter(Boolean).join(", ");
}

/** Names with runs of numbers folded as Slurm does, `gpu-[0001-0004,0009]`; cut to `width` characters. */
export function nodeList(names: readonly string[], width = PLACES_CHARS_MAX): string {
  const groups = new Map<string, { prefix: string; digits: number; numbers: number[] }>();
  for (const name of new Set(names)) {
    const match = /^(.*?)(\d{1,9})$/.exec(name);
    const prefix = match?.[1] ?? name;
    const digits = match?.[2]?.length ?? 0;
    const key = `${digits} ${prefix}`;
    const group = groups.get(key) ?? { prefix, digits, numbers: [] };
    group.numbers.push(match ? Number(match[2]) : 0);
    groups.set(key, group);
  }
  const text = [...groups.values()].map(folded).join(",");
  return text.length <= width ? text : `${text.slice(0, width - 1)}…`;
}

/** `1 job`, `12 jobs`; plural: where it is not the word with an s. */
export function counted(number: number, word: string, plural = `${word}s`): string {
  return `${number.toLocaleString("en-GB")} ${number === 1 ? word : plural}`;
}

/** `1st`, `2nd`, `13th`. */
export function ordinal(number: number): string {
  const teen = number % 100 >= 11 && number % 100 <= 13;
  return `${number.toLocaleString("en-GB")}${teen ? "th" : (["th", "st", "nd", "rd"][number % 10] ?? "th")}`;
}

function folded(group: { prefix: string; digits: number; numbers: number[] }): string {
  const { prefix, digits } = group;
  if (!digits) return prefix;
  const numbers = [...group.numbers].sort((one, two) => one - two);
  const padded = (number: number) => String(number).padStart(digits, "0");
  const told: string[] = [];
  for (let start = 0; start < numbers.length; ) {
    let end = start;
    while (end + 1 < numbers.length && numbers[end + 1] === (numbers[end] ?? 0) + 1) end += 1;
    const [from, to] = [numbers[start] ?? 0, numbers[end] ?? 0];
    told.push(from === to ? padded(from) : `${padded(from)}-${padded(to)}`);
    start = end + 1;
  }
  return numbers.length === 1 ? `${prefix}${told[0]}` : `${prefix}[${told.join(",")}]`;
}

const formats = new Map<string, Intl.DateTimeFormat>();

function parts(atNs: number, zone?: string) {
  let format = formats.get(zone ?? "");
  if (!format) {
    const options = {
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      weekday: "short",
      hourCycle: "h23",
    } as const;
    format = new Intl.DateTimeFormat("en-GB", zone ? { ...options, timeZone: zone } : options);
    formats.set(zone ?? "", format);
  }
  const found: Record<string, string> = {};
  for (const part of format.formatToParts(new Date(atNs / 1e6))) found[part.type] = part.value;
  const { year = "", month = "", day = "", hour = "", minute = "", weekday = "" } = found;
  return { year, month, day, hour, minute, weekday, monthName: MONTHS[Number(month) - 1] ?? "" };
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
