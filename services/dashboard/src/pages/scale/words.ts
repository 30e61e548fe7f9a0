/** The scaler's choices in words, the same that `muster scale` prints. Pure. */

import type { ScaleChoiceView } from "../../wire";
import { brief, long, NS_PER_S } from "../jobs/words";

export const NOTHING = "nothing-chosen";
const SCALING_DOWN: ReadonlySet<number> = new Set([3, 4]);

/** The four cases, as the scaler numbers them. */
export const CASES: Readonly<Record<number, string>> = {
  1: "a node is needed",
  2: "a node is needed and not available",
  3: "a node or GPU is not needed",
  4: "a node is not needed and cannot be removed",
};

const WHAT: Readonly<Record<string, string>> = {
  "gpu-attach-chosen": "attach",
  "gpu-remove-chosen": "return",
  "node-add-chosen": "add a node",
  "node-remove-chosen": "remove the node",
  [NOTHING]: "nothing",
};

/** `attach 2 × H100`, `add a node`, `nothing`. */
export function whatOf(choice: ScaleChoiceView): string {
  const words = WHAT[choice.name] ?? choice.name;
  if (!choice.name.startsWith("gpu-")) return words;
  const count = choice.name === "gpu-remove-chosen" ? choice.devices.length : choice.count;
  return `${words} ${count} × ${choice.device_model || "GPU"}`;
}

/** What tells a choice from others: all that nothing was chosen for a job have the same id. */
export function keyOf(choice: ScaleChoiceView): string {
  return choice.name === NOTHING ? `${choice.id}-${Math.round(choice.at / 1e6)}` : choice.id;
}

export type Outcome = "nothing" | "going" | "done" | "failed";

export function outcomeOf(choice: ScaleChoiceView): Outcome {
  if (choice.name === NOTHING) return "nothing";
  return choice.outcome === "" ? "going" : choice.outcome === "failed" ? "failed" : "done";
}

/** `done in 4.2 s`, `under way for 12 s`; "" where nothing was chosen. */
export function stateOf(choice: ScaleChoiceView, nowNs: number): string {
  switch (outcomeOf(choice)) {
    case "nothing":
      return "";
    case "going":
      return choice.at ? `under way for ${long(Math.max(0, nowNs - choice.at) / NS_PER_S)}` : "under way";
    default:
      return `${choice.outcome} in ${brief(Math.max(0, choice.ended_at - choice.at) / NS_PER_S)}`;
  }
}

/** What it adds to the power drawn now, with its sign; when scaling down the scaler tells what is saved. */
export function wattsOf(watts: number, scaleCase: number): string {
  const change = SCALING_DOWN.has(scaleCase) && watts ? -watts : watts;
  return `${change > 0 ? "+" : change < 0 ? "−" : ""}${Number(Math.abs(change).toPrecision(6))}`;
}
