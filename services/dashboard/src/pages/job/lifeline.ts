/** A job's life as stretches of waiting, starting, running and stopping, from its facts. Pure. */

import type { FactView } from "../../wire";
import { NS_PER_S, TERMINAL } from "../jobs/words";

export type Stage = "waiting" | "held" | "starting" | "running" | "stopping";

/** toNs: end, or now for the last of a live job. share: of the whole line, 0 to 1. because: which fact began it. */
export interface Stretch {
  readonly stage: Stage;
  readonly fromNs: number;
  readonly toNs: number;
  readonly share: number;
  readonly attempt: number;
  readonly because: string;
}

/** ended: the terminal fact's name, "" while it lives. lengths: seconds by stage. */
export interface Lifeline {
  readonly stretches: readonly Stretch[];
  readonly ended: string;
  readonly lengths: ReadonlyMap<Stage, number>;
}

const BEGINS: Readonly<Record<string, Stage>> = {
  submitted: "waiting",
  queued: "waiting",
  unheld: "waiting",
  held: "held",
  placed: "starting",
  running: "running",
  "stop-requested": "stopping",
};
const SHARE_LEAST = 0.012; // so that a stretch of milliseconds is still seen and can be pointed at

/** Facts in any order; those of other kinds are passed by. nowNs: where the last stretch of a live job ends. */
export function lifelineOf(facts: Iterable<FactView>, nowNs: number): Lifeline {
  const seen = new Set<string>();
  const own = [...facts]
    .filter((fact) => fact.kind === "job")
    .sort((one, two) => one.time - two.time || one.seq - two.seq);
  const found: { stage: Stage; fromNs: number; attempt: number; because: string }[] = [];
  let ended = "";
  let endNs = nowNs;
  let attempt = 0;
  for (const fact of own) {
    if (seen.has(fact.id)) continue;
    seen.add(fact.id);
    if (TERMINAL.has(fact.name)) {
      [ended, endNs] = [fact.name, fact.time];
      break;
    }
    const stage = BEGINS[fact.name];
    const last = found[found.length - 1];
    if (!stage || (fact.name === "unheld" && last?.stage !== "held")) continue;
    if (fact.name === "queued") attempt += 1;
    if (last?.stage !== stage)
      found.push({ stage, fromNs: fact.time, attempt: Math.max(1, attempt), because: fact.name });
  }
  const stretches = found.map((one, index) => ({
    ...one,
    toNs: Math.max(one.fromNs, found[index + 1]?.fromNs ?? endNs),
  }));
  return { stretches: withShares(stretches), ended, lengths: lengthsOf(stretches) };
}

/** Widths that add up to 1, none below the least that can be seen. */
function withShares(stretches: readonly Omit<Stretch, "share">[]): Stretch[] {
  const total = stretches.reduce((sum, one) => sum + (one.toNs - one.fromNs), 0) || 1;
  const raw = stretches.map((one) => Math.max(SHARE_LEAST, (one.toNs - one.fromNs) / total));
  const whole = raw.reduce((sum, one) => sum + one, 0) || 1;
  return stretches.map((one, index) => ({ ...one, share: (raw[index] ?? 0) / whole }));
}

function lengthsOf(stretches: readonly Omit<Stretch, "share">[]): Map<Stage, number> {
  const lengths = new Map<Stage, number>();
  for (const one of stretches) {
    lengths.set(one.stage, (lengths.get(one.stage) ?? 0) + (one.toNs - one.fromNs) / NS_PER_S);
  }
  return lengths;
}
