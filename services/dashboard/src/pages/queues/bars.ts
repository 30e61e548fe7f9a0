/** Where the parts of a queue's bar stand. Pure. */

import type { Figures } from "./figures";

/** Shares of the drawing, 0 to 1. limit, fair: where their marks stand, null without one. */
export interface QueueBar {
  readonly reach: number;
  readonly nominal: number;
  readonly own: Part;
  readonly borrowed: Part;
  readonly lent: Part;
  readonly limit: number | null;
  readonly fair: number | null;
}

export interface Part {
  readonly left: number;
  readonly width: number;
}

/** The amount that fills the drawing, so that bars can be compared. */
export function scaleOf(figures: Iterable<Figures>): number {
  let most = 0;
  for (const one of figures) most = Math.max(most, one.reach, one.held, one.nominal ?? 0);
  return most || 1;
}

/** scale: amount at the right end. What is lent stands at the end of the promise, what is borrowed behind it. */
export function barOf(figures: Figures, scale: number): QueueBar {
  const at = (value: number) => Math.min(1, Math.max(0, value / scale));
  const nominal = figures.nominal ?? 0;
  const own = figures.held - figures.borrowed;
  const lent = Math.min(figures.lent, Math.max(0, nominal - own));
  return {
    reach: at(figures.reach),
    nominal: at(nominal),
    own: { left: 0, width: at(own) },
    borrowed: { left: at(own), width: at(figures.held) - at(own) },
    lent: { left: at(nominal - lent), width: at(nominal) - at(nominal - lent) },
    limit: figures.limit === null || figures.limit >= scale * 1.001 ? null : at(figures.limit),
    fair: figures.fair === null ? null : at(figures.fair),
  };
}
