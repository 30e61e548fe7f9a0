/** What the upgrader says of campaigns, as people read it; and who may ask what of one. Pure. */

import { whyNotOperator } from "../../operators";
import type { Tone } from "../../ui";
import type { CampaignSpec, CampaignView, Me, TurnView } from "../../wire";

export const STATE_TONE: Readonly<Record<string, Tone>> = {
  going: "info",
  paused: "wait",
  stopped: "bad",
  aborting: "warn",
  ended: "neutral",
};

/** Steps in the order that a node goes through them. */
export const STEPS: Readonly<Record<string, Tone>> = {
  failed: "bad",
  "rolling-back": "warn",
  "rolled-back": "warn",
  upgrading: "info",
  validating: "info",
  drained: "info",
  "waiting-for-jobs": "wait",
  cordoned: "wait",
  planned: "neutral",
  done: "ok",
};

const ORDER = Object.keys(STEPS);

/** "driver 580.105", "reboot", "command ./fix.sh". */
export function whatWords({ component, version, command }: CampaignSpec): string {
  return [component, version, ...command].filter(Boolean).join(" ");
}

/** Nodes by step, in the order of STEPS; steps that nobody knows come last. */
export function stepCounts({ steps }: CampaignView): [step: string, nodes: number][] {
  const place = (step: string): number => (ORDER.includes(step) ? ORDER.indexOf(step) : ORDER.length);
  return Object.entries(steps)
    .filter(([, nodes]) => nodes > 0)
    .sort(([a], [b]) => place(a) - place(b) || a.localeCompare(b));
}

export interface Progress {
  all: number;
  done: number;
  failed: number;
  underWay: number;
}

const UNDER_WAY: ReadonlySet<string> = new Set([
  "cordoned",
  "waiting-for-jobs",
  "drained",
  "upgrading",
  "validating",
  "rolling-back",
]);

export function progressOf({ steps }: CampaignView): Progress {
  const sum = (fits: (step: string) => boolean): number =>
    Object.entries(steps).reduce((all, [step, nodes]) => all + (fits(step) ? nodes : 0), 0);
  return {
    all: sum(() => true),
    done: sum((step) => step === "done"),
    failed: sum((step) => step === "failed" || step === "rolled-back"),
    underWay: sum((step) => UNDER_WAY.has(step)),
  };
}

/** What needs eyes first: failed, then under way, then by their turn, then those that are done. */
export function orderedTurns(turns: readonly TurnView[]): TurnView[] {
  const rank = ({ step }: TurnView): number => (ORDER.includes(step) ? ORDER.indexOf(step) : -1);
  const turn = ({ turn_at }: TurnView): number => turn_at || Number.MAX_SAFE_INTEGER;
  return [...turns].sort((a, b) => rank(a) - rank(b) || turn(a) - turn(b) || a.node.localeCompare(b.node));
}

export type Ask = "pause" | "resume" | "abort";

export interface Action {
  name: Ask;
  title: string;
  why: string;
}

const FITS: Readonly<Record<Ask, readonly string[]>> = {
  pause: ["going"],
  resume: ["paused", "stopped"],
  abort: ["going", "paused", "stopped"],
};

/** Pause or resume, whichever would change something, and abort; why not, where that cannot be. */
export function actionsFor(campaign: CampaignView, me: Me | null): Action[] {
  const isHalted = FITS.resume.includes(campaign.state);
  return (isHalted ? (["resume", "abort"] as const) : (["pause", "abort"] as const)).map((name) => ({
    name,
    title: name.charAt(0).toUpperCase() + name.slice(1),
    why: FITS[name].includes(campaign.state)
      ? whyNotOperator(me, `${name} campaigns`)
      : `The campaign is ${campaign.state}.`,
  }));
}
