/** From a point to what stands there, and from a cell to its neighbours. */

import type { Layout } from "./layout";

export interface Hit {
  node: number;
  /** -1: on the node, between or beside its cells. */
  cell: number;
}

/** What is at a point of the layout; undefined between the racks. */
export function hit(layout: Layout, x: number, y: number): Hit | undefined {
  const line = lineAt(layout.lineTop, y);
  for (const at of layout.lines[line] ?? []) {
    const box = layout.racks[at];
    if (box && x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height) {
      return inRack(layout, at, x, y);
    }
  }
  return undefined;
}

function lineAt(tops: readonly number[], y: number): number {
  let low = 0;
  let high = tops.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((tops[middle] as number) <= y) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

function inRack(layout: Layout, rack: number, x: number, y: number): Hit | undefined {
  const { pitch, nodePitch } = layout.metrics;
  const box = layout.racks[rack];
  for (let node = firstOf(layout, rack); layout.rackOf[node] === rack; node++) {
    const left = layout.nodeX[node] as number;
    const top = layout.nodeY[node] as number;
    if (!box || x < left || x >= left + box.nodeWidth + layout.metrics.nodeGap) {
      continue;
    }
    const [first, last] = [layout.cellBase[node] as number, layout.cellBase[node + 1] as number];
    if (y >= top && y < (layout.cellY[last - 1] as number) + nodePitch) {
      for (let cell = first; cell < last; cell++) {
        const [cellX, cellY] = [layout.cellX[cell] as number, layout.cellY[cell] as number];
        if (x >= cellX && x < cellX + pitch && y >= cellY && y < cellY + pitch) {
          return { node, cell };
        }
      }
      return { node, cell: -1 };
    }
  }
  return undefined;
}

/** Nodes are numbered rack by rack. */
function firstOf(layout: Layout, rack: number): number {
  let low = 0;
  let high = layout.rackOf.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((layout.rackOf[middle] as number) < rack) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

export type Move =
  | "left"
  | "right"
  | "up"
  | "down"
  | "node-start"
  | "node-end"
  | "rack-before"
  | "rack-after"
  | "first"
  | "last";

/** The cell that one comes to; the same one where there is nothing in that direction. */
export function move(layout: Layout, cell: number, direction: Move): number {
  const node = layout.nodeOf[cell] ?? 0;
  const rack = layout.rackOf[node] ?? 0;
  switch (direction) {
    case "node-start":
      return layout.cellBase[node] as number;
    case "node-end":
      return (layout.cellBase[node + 1] as number) - 1;
    case "first":
      return 0;
    case "last":
      return layout.nodeOf.length - 1;
    case "rack-before":
      return layout.cellBase[firstOf(layout, Math.max(0, rack - 1))] as number;
    case "rack-after":
      return rack + 1 < layout.racks.length ? (layout.cellBase[firstOf(layout, rack + 1)] as number) : cell;
    default:
      return nearest(layout, cell, direction);
  }
}

/** Sideways movement counts threefold, so that one stays in one's row or column as long as it goes on. */
const ASIDE = 3;

function nearest(layout: Layout, from: number, direction: "left" | "right" | "up" | "down"): number {
  const [x, y] = [layout.cellX[from] as number, layout.cellY[from] as number];
  const isAcross = direction === "left" || direction === "right";
  const sign = direction === "right" || direction === "down" ? 1 : -1;
  let best = from;
  let least = Number.POSITIVE_INFINITY;
  for (let cell = 0; cell < layout.nodeOf.length; cell++) {
    const dx = (layout.cellX[cell] as number) - x;
    const dy = (layout.cellY[cell] as number) - y;
    const along = sign * (isAcross ? dx : dy);
    if (along <= 0 || (isAcross && Math.abs(dy) > along && dy !== 0)) {
      continue;
    }
    const cost = along + ASIDE * Math.abs(isAcross ? dy : dx);
    if (cost < least) {
      least = cost;
      best = cell;
    }
  }
  return best;
}
