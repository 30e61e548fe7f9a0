/** Where the bars of a trace stand. Pure. */

import { brief } from "../jobs/words";
import type { Span } from "./trace";

/** left, width: shares of the drawing, 0 to 1. A bar reaches from the fact that it hangs under to the fact itself. */
export interface Bar {
  readonly span: Span;
  readonly left: number;
  readonly width: number;
}

/** A moment on the axis. */
export interface Tick {
  readonly at: number;
  readonly label: string;
}

/** even: gaps are drawn by their logarithm, so that milliseconds are seen beside hours. */
export type Scale = "even" | "true";

const TICKS_MOST = 7;
const TICK_APART = 0.09;
const MS = 1e3;

/** Bars of these spans, and some moments to read them by, at least so far apart (a share of the drawing). */
export function waterfall(
  spans: readonly Span[],
  scale: Scale,
  apart = TICK_APART,
): { bars: readonly Bar[]; ticks: readonly Tick[] } {
  const moments = [...new Set(spans.map((span) => span.sinceStartS))].sort((one, two) => one - two);
  const place = scale === "true" ? truePlaces(moments) : evenPlaces(moments);
  const bars = spans.map((span) => {
    const right = place.get(span.sinceStartS) ?? 0;
    const left = place.get(nearest(moments, span.sinceStartS - span.afterParentS)) ?? 0;
    return { span, left: Math.min(left, right), width: Math.max(0, right - left) };
  });
  return { bars, ticks: scale === "true" ? trueTicks(moments, apart) : evenTicks(moments, place, apart) };
}

/** Whether one stretch is so long that the rest would be a hair's breadth on a true scale. */
export function isLopsided(spans: readonly Span[]): boolean {
  const moments = [...new Set(spans.map((span) => span.sinceStartS))].sort((one, two) => one - two);
  const total = (moments[moments.length - 1] ?? 0) - (moments[0] ?? 0);
  const longest = moments.slice(1).reduce((most, at, index) => Math.max(most, at - (moments[index] ?? 0)), 0);
  return moments.length > 3 && longest > total / 2;
}

function truePlaces(moments: readonly number[]): Map<number, number> {
  const total = (moments[moments.length - 1] ?? 0) || 1;
  return new Map(moments.map((at) => [at, at / total]));
}

function evenPlaces(moments: readonly number[]): Map<number, number> {
  const gaps = moments.map((at, index) => (index ? Math.log10(1 + (at - (moments[index - 1] ?? 0)) * MS) : 0));
  const total = gaps.reduce((sum, gap) => sum + gap, 0) || 1;
  let sum = 0;
  return new Map(
    moments.map((at, index) => {
      sum += gaps[index] ?? 0;
      return [at, sum / total];
    }),
  );
}

function trueTicks(moments: readonly number[], apart: number): Tick[] {
  const total = moments[moments.length - 1] ?? 0;
  if (!total) return [];
  const step = niceStep(Math.max(total / (TICKS_MOST - 1), total * apart));
  const ticks: Tick[] = [];
  for (let at = 0; at <= total; at += step) ticks.push({ at: at / total, label: at ? brief(at) : "0" });
  return ticks;
}

/** On an uneven scale only moments of facts have a place that can be named; those far enough apart are. */
function evenTicks(moments: readonly number[], place: ReadonlyMap<number, number>, apart: number): Tick[] {
  const ticks: Tick[] = [];
  for (const moment of moments) {
    const at = place.get(moment) ?? 0;
    const last = ticks[ticks.length - 1];
    if (!last || at - last.at >= apart) ticks.push({ at, label: moment ? brief(moment) : "0" });
  }
  return ticks;
}

const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 604_800];

function niceStep(rough: number): number {
  if (rough < 1) {
    const power = 10 ** Math.floor(Math.log10(rough));
    return power * ([1, 2, 5, 10].find((step) => step * power >= rough) ?? 10);
  }
  return STEPS_S.find((step) => step >= rough) ?? Math.ceil(rough / 604_800) * 604_800;
}

function nearest(moments: readonly number[], at: number): number {
  let best = moments[0] ?? 0;
  for (const one of moments) if (Math.abs(one - at) < Math.abs(best - at)) best = one;
  return best;
}
