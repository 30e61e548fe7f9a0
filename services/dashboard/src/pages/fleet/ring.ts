/** Frames around what is pointed at, selected, or where the keyboard is. */

import type { Layout } from "./layout";
import type { View } from "./view";

/** width, away: of the line, and from the cell to it, in device pixels. cell: -1 for the node as a whole. */
export interface Ring {
  node: number;
  cell: number;
  colour: string;
  width: number;
  away: number;
}

export function drawRing(pen: CanvasRenderingContext2D, layout: Layout, view: View, ring: Ring): void {
  const { node, width } = ring;
  if (node < 0 || node >= layout.nodeX.length) {
    return;
  }
  const first = ring.cell < 0 ? (layout.cellBase[node] as number) : ring.cell;
  const last = ring.cell < 0 ? (layout.cellBase[node + 1] as number) - 1 : ring.cell;
  const across = layout.cellX.subarray(first, last + 1);
  const [left, right] = [Math.min(...across), Math.max(...across)];
  const [top, bottom] = [layout.cellY[first] as number, layout.cellY[last] as number];
  const { cell } = layout.metrics;
  const out = ring.away + width / 2;
  pen.lineWidth = width;
  pen.strokeStyle = ring.colour;
  pen.beginPath();
  pen.roundRect(
    left + view.x - out,
    top + view.y - out,
    right - left + cell + 2 * out,
    bottom - top + cell + 2 * out,
    cell * 0.2 + ring.away,
  );
  pen.stroke();
}
