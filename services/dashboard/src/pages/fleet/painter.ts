/** Draws the map: all of it when the view changes, otherwise the cells that changed, a bounded time per frame. */

import { CellPainter } from "./cell_painter";
import type { FleetCells } from "./cells";
import type { BlockBox, Layout, RackBox } from "./layout";
import { AT, type Palette } from "./palette";
import type { View } from "./view";

/** One frame draws no longer than this; what is left waits for the next. */
export const FRAME_MS_MAX = 3;
const LOOK_AT_CLOCK_EVERY = 64;

export class Painter extends CellPainter {
  private readonly clock: () => number;

  constructor(canvas: HTMLCanvasElement, cells: FleetCells, palette: Palette, clock: () => number) {
    super(canvas, cells, palette);
    this.clock = clock;
  }

  /** Everything that is in view; the cells at once too, so that nothing flickers. */
  paintAll(): void {
    this.forgetGaps();
    this.paintArea(0, 0, this.canvas.width, this.canvas.height);
    this.cells.dirty.clear();
  }

  /** Move what is drawn, and draw what came into view. */
  panTo(view: View): void {
    const [dx, dy] = [view.x - this.view.x, view.y - this.view.y];
    const { width, height } = this.canvas;
    this.view = view;
    if (Math.abs(dx) >= width || Math.abs(dy) >= height) {
      this.paintAll();
      return;
    }
    this.context.drawImage(this.canvas, dx, dy);
    if (dx !== 0) {
      this.paintArea(dx > 0 ? 0 : width + dx, 0, Math.abs(dx), height);
    }
    if (dy !== 0) {
      this.paintArea(0, dy > 0 ? 0 : height + dy, width, Math.abs(dy));
    }
  }

  /** Draw dirty cells until there are none or the time is over; returns how many are left. */
  paintDirty(): number {
    const { layout, isLarge } = this;
    if (!layout) {
      return 0; // nothing has a place yet: once it has, everything is drawn
    }
    const { dirty } = this.cells;
    const until = this.clock() + FRAME_MS_MAX;
    this.forgetColour();
    for (let drawn = 1; dirty.size > 0; drawn++) {
      const cell = dirty.take();
      if (isLarge) {
        this.paintNode(layout, layout.nodeOf[cell] as number);
      } else {
        this.paintCell(cell);
      }
      if (drawn % LOOK_AT_CLOCK_EVERY === 0 && this.clock() > until) {
        break;
      }
    }
    return dirty.size;
  }

  private paintArea(left: number, top: number, width: number, height: number): void {
    const { layout, context } = this;
    context.save();
    if (width < this.canvas.width || height < this.canvas.height) {
      context.beginPath();
      context.rect(left, top, width, height);
      context.clip();
    }
    context.fillStyle = this.colour(AT.ground);
    context.fillRect(left, top, width, height);
    const inArea = (x: number, y: number, w: number, h: number): boolean =>
      x + this.view.x < left + width &&
      x + this.view.x + w > left &&
      y + this.view.y < top + height &&
      y + this.view.y + h > top;
    for (const block of layout?.blocks ?? []) {
      this.paintBlock(block);
    }
    this.forgetColour();
    layout?.racks.forEach((box, at) => {
      if (inArea(box.x, box.y, box.width, box.height)) {
        this.paintRack(layout, box, at);
      }
    });
    context.restore();
    this.forgetColour();
  }

  private paintBlock(block: BlockBox): void {
    const { layout, context } = this;
    const m = layout?.metrics;
    if (!m || m.head < m.fontPx) {
      return;
    }
    const [x, y] = [block.x + this.view.x, block.y + this.view.y];
    const line = Math.max(1, Math.round(m.fontPx / 12));
    const base = y + m.head - Math.round(m.head * 0.28);
    context.font = `600 ${m.fontPx}px system-ui, sans-serif`;
    context.textBaseline = "alphabetic";
    context.fillStyle = this.colour(AT.faint);
    context.fillText(block.label, x, base, block.width);
    const words = block.label ? context.measureText(block.label).width + m.fontPx * 0.5 : 0;
    if (words < block.width) {
      context.fillStyle = this.colour(AT.frame);
      context.fillRect(
        Math.round(x + words),
        base - Math.round(m.fontPx * 0.35),
        Math.round(block.width - words),
        line,
      );
    }
  }

  private paintRack(layout: Layout, box: RackBox, at: number): void {
    const { context } = this;
    const m = layout.metrics;
    const [x, y] = [box.x + this.view.x, box.y + this.view.y];
    context.fillStyle = this.colour(AT.panel);
    if (m.pad >= 4) {
      context.beginPath();
      context.roundRect(x, y, box.width, box.height, m.pad);
      context.fill();
    } else {
      context.fillRect(x, y, box.width, box.height);
    }
    this.forgetColour();
    const rack = this.cells.racks[at];
    if (!rack) {
      return;
    }
    if (m.rackLabel > 0 && rack.label !== rack.block) {
      context.font = `500 ${m.fontPx}px system-ui, sans-serif`;
      context.textBaseline = "middle";
      context.fillStyle = this.colour(AT.faint);
      context.fillText(rack.label, x + m.pad, y + m.pad + m.rackLabel * 0.36, box.width - 2 * m.pad);
    }
    for (let node = rack.first; node < rack.first + rack.nodes; node++) {
      if (m.nodeLabel > 0) {
        this.paintName(layout, node);
      }
      this.forgetColour();
      this.paintNode(layout, node);
    }
  }

  private paintName(layout: Layout, node: number): void {
    const { context } = this;
    const m = layout.metrics;
    const name = this.cells.nodes[node]?.name ?? "";
    context.font = `400 ${m.fontPx}px ui-monospace, monospace`;
    context.textBaseline = "middle";
    context.fillStyle = this.colour(AT.faint);
    const x = (layout.nodeX[node] as number) + this.view.x;
    const y = (layout.nodeY[node] as number) + this.view.y + m.cell / 2;
    context.fillText(name.length > 18 ? `${name.slice(0, 17)}…` : name, x, y, m.nodeLabel - m.fontPx * 0.5);
  }
}
