/** Problems over time, from what health tells of those that stand and those that are over: pure geometry and sums. */

import type { ConditionsAnswer, InstantNs } from "../../wire";

export const WIDTH = 600;
export const HEIGHT = 120;
/** So many that are over are told at the most; then older ones are missing. */
export const ENDED_MAX = 200;
const WINDOW_NS = 7 * 86_400 * 1e9;

/** Of a node or GPU: when it was no longer healthy, and when again; 0: not yet. */
export interface Illness {
  beganAt: InstantNs;
  endedAt: InstantNs;
}

export interface History {
  fromNs: InstantNs;
  toNs: InstantNs;
  /** Points of an SVG polyline in a box of WIDTH by HEIGHT: how many were not healthy at that time. */
  points: string;
  now: number;
  most: number;
}

/** seconds: between two problems, of the whole fleet; perNodeS: of one node. problems: within windowS. */
export interface Between {
  seconds: number;
  perNodeS: number;
  problems: number;
  windowS: number;
}

interface Window {
  fromNs: InstantNs;
  toNs: InstantNs;
  /** Whether it begins later than the first problem. */
  isCut: boolean;
}

export function illnesses({ conditions, ended }: ConditionsAnswer): Illness[] {
  const stand = conditions
    .filter((one) => one.phase !== "healthy" && one.began_at > 0)
    .map((one) => ({ beganAt: one.began_at, endedAt: 0 }));
  return [...stand, ...ended.map((one) => ({ beganAt: one.began_at, endedAt: one.ended_at }))];
}

/** Since when all problems are known, but for no longer than a week; null if there was none. */
function windowOf(answer: ConditionsAnswer): Window | null {
  const began = illnesses(answer).map((one) => one.beganAt);
  if (!began.length) {
    return null;
  }
  const first = Math.min(...began);
  const known = answer.ended.length < ENDED_MAX ? 0 : Math.min(...answer.ended.map((one) => one.ended_at));
  const fromNs = Math.max(first, known, answer.at - WINDOW_NS);
  return { fromNs, toNs: Math.max(answer.at, fromNs + 1e9), isCut: fromNs > first };
}

/** How many were not healthy at any time; null if all always were. */
export function historyOf(answer: ConditionsAnswer): History | null {
  const window = windowOf(answer);
  if (!window) {
    return null;
  }
  const { fromNs, toNs } = window;
  const steps = new Map<InstantNs, number>();
  const step = (at: InstantNs, by: number): Map<InstantNs, number> => steps.set(at, (steps.get(at) ?? 0) + by);
  for (const { beganAt, endedAt } of illnesses(answer)) {
    if (!endedAt || endedAt > fromNs) {
      step(Math.max(beganAt, fromNs), 1);
      if (endedAt) {
        step(endedAt, -1);
      }
    }
  }
  const counts: { at: InstantNs; count: number }[] = [];
  for (const [at, by] of [...steps.entries()].sort(([a], [b]) => a - b)) {
    counts.push({ at, count: (counts.at(-1)?.count ?? 0) + by });
  }
  const count = counts.at(-1)?.count ?? 0;
  const most = Math.max(1, ...counts.map((one) => one.count));
  const x = (at: InstantNs): string => ((WIDTH * (at - fromNs)) / (toNs - fromNs)).toFixed(1);
  const y = (many: number): string => (HEIGHT - (HEIGHT * many) / most).toFixed(1);
  const corners = counts.flatMap((one, index) => [
    `${x(one.at)},${y(counts[index - 1]?.count ?? 0)}`,
    `${x(one.at)},${y(one.count)}`,
  ]);
  return { fromNs, toNs, points: [...corners, `${x(toNs)},${y(count)}`].join(" "), now: count, most };
}

/**
 * Mean time between failures: the window through the problems that began in it; null if there were fewer than two.
 *
 * Where the window begins with the first problem, that one tells no time between two.
 */
export function timeBetween(answer: ConditionsAnswer): Between | null {
  const window = windowOf(answer);
  if (!window) {
    return null;
  }
  const problems = illnesses(answer).filter((one) => one.beganAt >= window.fromNs).length;
  const windowS = (window.toNs - window.fromNs) / 1e9;
  const gaps = window.isCut ? problems : problems - 1;
  return problems < 2
    ? null
    : { seconds: windowS / gaps, perNodeS: (windowS / gaps) * answer.nodes, problems, windowS };
}
