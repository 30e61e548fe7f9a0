/** The scaler's choices on a line of time. Pure. */

import type { ScaleChoiceView } from "../../wire";
import { NS_PER_S } from "../jobs/words";
import { type Outcome, outcomeOf } from "./words";

export const LANES = [
  { name: "gpu-attach-chosen", title: "Attach GPUs" },
  { name: "gpu-remove-chosen", title: "Return GPUs" },
  { name: "node-add-chosen", title: "Add nodes" },
  { name: "node-remove-chosen", title: "Remove nodes" },
  { name: "nothing-chosen", title: "Nothing helps" },
] as const;

/** left, width: shares of the drawing. row: within its lane, so that those at the same time do not hide each other. */
export interface Mark {
  readonly choice: ScaleChoiceView;
  readonly outcome: Outcome;
  readonly left: number;
  readonly width: number;
  readonly row: number;
}

export interface Lane {
  readonly title: string;
  readonly rows: number;
  readonly marks: readonly Mark[];
}

/** fromNs, toNs: what the drawing spans. */
export interface Timeline {
  readonly fromNs: number;
  readonly toNs: number;
  readonly lanes: readonly Lane[];
  readonly ticks: readonly { readonly at: number; readonly ns: number }[];
}

const SPAN_LEAST_S = 60;
const WIDTH_LEAST = 0.006;
const ROWS_MAX = 4;
const TICKS = 5;

/** Lanes that have choices; the drawing ends now. */
export function timelineOf(choices: readonly ScaleChoiceView[], nowNs: number): Timeline {
  const first = Math.min(nowNs, ...choices.map((choice) => choice.at || nowNs));
  const toNs = Math.max(nowNs, first + SPAN_LEAST_S * NS_PER_S);
  const fromNs = Math.min(first, toNs - SPAN_LEAST_S * NS_PER_S);
  const span = toNs - fromNs;
  const lanes = LANES.map((lane) => laneOf(lane, choices, (ns) => (ns - fromNs) / span, nowNs));
  const ticks = Array.from({ length: TICKS }, (_none, index) => ({
    at: index / (TICKS - 1),
    ns: fromNs + (span * index) / (TICKS - 1),
  }));
  return { fromNs, toNs, lanes: lanes.filter((lane) => lane.marks.length), ticks };
}

function laneOf(
  lane: (typeof LANES)[number],
  choices: readonly ScaleChoiceView[],
  at: (ns: number) => number,
  nowNs: number,
): Lane {
  const ends: number[] = []; // of each row, where its last mark ends
  const own = choices.filter((choice) => choice.name === lane.name).sort((one, two) => one.at - two.at);
  const marks = own.map((choice) => {
    const outcome = outcomeOf(choice);
    const end = outcome === "nothing" ? choice.at : choice.ended_at || nowNs;
    const left = Math.min(at(choice.at), 1 - WIDTH_LEAST);
    const width = Math.max(WIDTH_LEAST, at(end) - left);
    const free = ends.findIndex((taken) => taken <= left);
    const row = free >= 0 ? free : Math.min(ends.length, ROWS_MAX - 1);
    ends[row] = Math.max(ends[row] ?? 0, left + width);
    return { choice, outcome, left, width, row };
  });
  return { title: lane.title, rows: Math.max(1, ends.length), marks };
}
