/** Quantities as people read them: pure. Times come as nanoseconds, GPUs as thousandths. */

import type { InstantNs } from "../wire";

const NS_PER_MS = 1e6;
const MINUTE_S = 60;
const HOUR_S = 3_600;
const DAY_S = 86_400;

/** "850 ms", "12 s", "3 min 20 s", "4 h 05 min", "2 d 3 h". */
export function duration(seconds: number): string {
  const s = Math.max(0, seconds);
  if (s < 1) {
    return s === 0 ? "0 s" : `${Math.round(s * 1000)} ms`;
  }
  if (s < 10) {
    return `${s.toFixed(1)} s`;
  }
  if (s < MINUTE_S) {
    return `${Math.round(s)} s`;
  }
  if (s < HOUR_S) {
    return two(Math.floor(s / MINUTE_S), "min", Math.floor(s % MINUTE_S), "s");
  }
  if (s < DAY_S) {
    return two(Math.floor(s / HOUR_S), "h", Math.floor((s % HOUR_S) / MINUTE_S), "min");
  }
  return two(Math.floor(s / DAY_S), "d", Math.floor((s % DAY_S) / HOUR_S), "h");
}

function two(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}

/** Seconds from one instant to another; 0 if one of them has not come. */
export function secondsBetween(from: InstantNs, to: InstantNs): number {
  return from && to ? Math.max(0, (to - from) / 1e9) : 0;
}

export function nowNs(): InstantNs {
  return Date.now() * NS_PER_MS;
}

/** "14:03:05" on the same day, "Nov 21 14:03" in the same year, "2026-11-21" before; "–" for what has not come. */
export function instant(at: InstantNs, now: InstantNs = nowNs()): string {
  if (!at) {
    return "–";
  }
  const then = new Date(at / NS_PER_MS);
  const today = new Date(now / NS_PER_MS);
  if (then.toDateString() === today.toDateString()) {
    return clock(then);
  }
  if (then.getFullYear() === today.getFullYear()) {
    return `${then.toLocaleString("en", { month: "short" })} ${then.getDate()} ${clock(then).slice(0, 5)}`;
  }
  return then.toISOString().slice(0, 10);
}

/** "14:03:05.123": for lists in which milliseconds tell the order. */
export function instantMs(at: InstantNs): string {
  const then = new Date(at / NS_PER_MS);
  return at ? `${clock(then)}.${String(then.getMilliseconds()).padStart(3, "0")}` : "–";
}

/** For a tool tip: the whole instant with its offset. */
export function instantInFull(at: InstantNs): string {
  return at ? new Date(at / NS_PER_MS).toISOString().replace("T", " ").replace("Z", " UTC") : "";
}

/** "12 s ago", "in 5 min". */
export function relative(at: InstantNs, now: InstantNs = nowNs()): string {
  if (!at) {
    return "–";
  }
  const seconds = (at - now) / 1e9;
  return seconds > 0 ? `in ${duration(seconds)}` : `${duration(Math.floor(-seconds))} ago`;
}

function clock(at: Date): string {
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
}

/** 8000 -> "8", 500 -> "0.5", 12250 -> "12.25". */
export function gpus(milli: number): string {
  return Number((milli / 1000).toFixed(milli % 1000 === 0 ? 0 : 3)).toLocaleString("en");
}

/** MiB as "80 GiB", "1.5 TiB". */
export function mebibytes(mib: number): string {
  if (mib < 1024) {
    return `${count(mib)} MiB`;
  }
  const gib = mib / 1024;
  return gib < 1024 ? `${short(gib)} GiB` : `${short(gib / 1024)} TiB`;
}

export function bytes(size: number): string {
  return size < 1024 ? `${size} B` : size < 1024 ** 2 ? `${short(size / 1024)} KiB` : mebibytes(size / 1024 ** 2);
}

/** Thousandths of a core. */
export function cores(milli: number): string {
  return short(milli / 1000);
}

export function count(many: number): string {
  return Math.round(many).toLocaleString("en");
}

/** 0.345 -> "35 %". */
export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

/** "1 job", "3 jobs". */
export function many(number: number, one: string, more = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : more}`;
}

/** The first letters of an id, which are enough for people. */
export function shortId(id: string): string {
  return id.slice(0, 8);
}

function short(value: number): string {
  return value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 });
}
