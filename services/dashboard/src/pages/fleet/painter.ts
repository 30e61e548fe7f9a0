/**
 * Draws the map: all of it when the view changes, otherwise the cells that changed, a bounded time per frame.
 *
 * Opaque rectangles on whole device pixels, colours from a table: nothing is measured, nothing allocated per cell.
 */

import type { FleetCells } from "./cells";
import type { BlockBox, Layout, RackBox } from "./layout";
import { COLOUR, DIM, HATCHED, JOINED, Kind, kindOf, markOf } from "./look";
import { AT, type Palette } from "./palette";
import type { View } from "./view";

/** One frame draws no longer than this; what is left waits for the next. */
export const FRAME_MS_MAX = 3;
const LOOK_AT_CLOCK_EVERY = 64;
const ROUNDED_FROM_PX = 12;

export class Painter {
  view: View = { x: 0, y: 0 };
  layout: Layout | undefined;
  palette: Palette;
  drawn = 0;
  private readonly context: CanvasRenderingContext2D;
  private hatch: CanvasPattern | string = "";
  private hatchOf = "";
  private filled = "";
  /** Cells whose gap to the right is painted in their colour now. */
  private joined = new Uint8Array(0);
  private readonly canvas: HTMLCanvasElement;
  private readonly cells: FleetCells;
  private readonly clock: () => number;

  constructor(canvas: HTMLCanvasElement, cells: FleetCells, palette: Palette, clock: () => number) {
    const context = canvas.getContext("2d", { alpha: false, desynchronized: false });
    if (!context) {
      throw new Error("this browser gives no 2D canvas: use the table instead");
    }
    this.canvas = canvas;
    this.cells = cells;
    this.palette = palette;
    this.clock = clock;
    this.context = context;
  }

  /** Everything that is in view; the cells at once too, so that nothing flickers. */
  paintAll(): void {
    this.joined = new Uint8Array(this.cells.count);
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
    const { dirty } = this.cells;
    const until = this.clock() + FRAME_MS_MAX;
    this.filled = "";
    for (let drawn = 1; dirty.size > 0; drawn++) {
      this.paintCell(dirty.take());
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
    this.filled = "";
    layout?.racks.forEach((box, at) => {
      if (inArea(box.x, box.y, box.width, box.height)) {
        this.paintRack(layout, box, at);
      }
    });
    context.restore();
    this.filled = "";
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
    this.filled = "";
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
      this.filled = "";
      const last = layout.cellBase[node + 1] as number;
      for (let cell = layout.cellBase[node] as number; cell < last; cell++) {
        this.paintCell(cell);
      }
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

  /** The cell, and the gap to its right, which is its own. */
  private paintCell(cell: number): void {
    const layout = this.layout as Layout;
    const { pitch, cell: size } = layout.metrics;
    const x = (layout.cellX[cell] as number) + this.view.x;
    const y = (layout.cellY[cell] as number) + this.view.y;
    if (x + pitch <= 0 || y + size <= 0 || x >= this.canvas.width || y >= this.canvas.height) {
      return;
    }
    this.drawn++;
    const look = this.cells.look[cell] as number;
    const colour = this.palette.colours[look & COLOUR] as string;
    const isJoined = (look & JOINED) !== 0;
    const kind = kindOf(look);
    if (size >= ROUNDED_FROM_PX) {
      this.paintLarge(cell, look, kind, colour, x, y);
      return;
    }
    if (kind === Kind.solid || kind === Kind.free || kind === Kind.lost) {
      this.fill(colour, x, y, isJoined ? pitch : size, size);
    } else {
      this.fill(this.colour(AT.panel), x, y, size, size);
    }
    this.mendGap(cell, isJoined, x + size, y, pitch - size, size);
    this.paintSigns(cell, look, kind, colour, x, y);
  }

  /** Take the colour out of a gap that joined two cells until now. */
  private mendGap(cell: number, isJoined: boolean, x: number, y: number, width: number, height: number): void {
    if (this.joined[cell] === 1 && !isJoined && width > 0) {
      this.fill(this.colour(AT.panel), x, y, width, height);
    }
    this.joined[cell] = isJoined ? 1 : 0;
  }

  private fill(colour: string, x: number, y: number, width: number, height: number): void {
    if (colour !== this.filled) {
      this.context.fillStyle = colour;
      this.filled = colour;
    }
    this.context.fillRect(x, y, width, height);
  }

  /** Cells with room for round corners; few of them are on a screen. */
  private paintLarge(cell: number, look: number, kind: Kind, colour: string, x: number, y: number): void {
    const { pitch, cell: size } = (this.layout as Layout).metrics;
    const isJoined = (look & JOINED) !== 0;
    const before = this.cells.look[cell - 1] ?? 0;
    const isContinued = cell > 0 && this.cells.nodeOf[cell - 1] === this.cells.nodeOf[cell] && (before & JOINED) !== 0;
    this.fill(this.colour(AT.panel), x, y, pitch, size);
    if (kind === Kind.solid || kind === Kind.free || kind === Kind.lost) {
      const round = Math.round(size * 0.18);
      const [left, right] = [isContinued ? 0 : round, isJoined ? 0 : round];
      this.context.fillStyle = colour;
      this.filled = colour;
      this.context.beginPath();
      this.context.roundRect(x, y, isJoined ? pitch : size, size, [left, right, right, left]);
      this.context.fill();
    }
    this.paintSigns(cell, look, kind, colour, x, y);
  }

  /** What says by form what the colour says too, and what no colour says. */
  private paintSigns(cell: number, look: number, kind: Kind, colour: string, x: number, y: number): void {
    const { cell: size } = (this.layout as Layout).metrics;
    const line = Math.max(1, Math.round(size / 10));
    const panel = this.colour(AT.panel);
    switch (kind) {
      case Kind.hollow:
        this.outline(colour, x, y, size, line);
        break;
      case Kind.noGpu:
        this.fill(colour, x, y + (size >> 1) - (line >> 1), size, line);
        break;
      case Kind.starting:
        this.outline(colour, x, y, size, Math.max(1, Math.round(size / 6)));
        break;
      case Kind.stopping: {
        const half = size >> 1;
        this.outline(colour, x, y, size, line);
        this.fill(colour, x, y + half, size, size - half);
        break;
      }
      case Kind.split:
        this.paintSplit(cell, (look & DIM) !== 0, x, y, size);
        break;
      case Kind.lost:
        this.paintCross(x, y, size, line, (look & DIM) !== 0);
        break;
      default:
        break;
    }
    this.paintMark(markOf(look), panel, x, y, size);
    if ((look & HATCHED) !== 0) {
      this.context.fillStyle = this.hatching(size);
      this.context.fillRect(x, y, size, size);
      this.filled = "";
    }
  }

  private outline(colour: string, x: number, y: number, size: number, line: number): void {
    if (size >= ROUNDED_FROM_PX) {
      const { context } = this;
      context.strokeStyle = colour;
      context.lineWidth = line;
      context.beginPath();
      context.roundRect(x + line / 2, y + line / 2, size - line, size - line, Math.max(1, size * 0.18 - line / 2));
      context.stroke();
      return;
    }
    this.fill(colour, x, y, size, line);
    this.fill(colour, x, y + size - line, size, line);
    this.fill(colour, x, y + line, line, size - 2 * line);
    this.fill(colour, x + size - line, y + line, line, size - 2 * line);
  }

  private paintCross(x: number, y: number, size: number, line: number, isDim: boolean): void {
    const { context } = this;
    context.strokeStyle = this.colour(isDim ? AT.hollow : AT.faint);
    context.lineWidth = line;
    context.beginPath();
    context.moveTo(x + line, y + line);
    context.lineTo(x + size - line, y + size - line);
    context.moveTo(x + size - line, y + line);
    context.lineTo(x + line, y + size - line);
    context.stroke();
  }

  private paintSplit(cell: number, isDim: boolean, x: number, y: number, size: number): void {
    const dim = isDim ? DIM : 0;
    this.fill(this.palette.colours[AT.free | dim] as string, x, y, size, size);
    let held = 0;
    let bottom = size;
    for (const part of this.cells.holders.shares(cell) ?? []) {
      const job = this.cells.job(part.job);
      held = Math.min(1000, held + part.milli);
      const top = size - Math.round((size * held) / 1000);
      if (job && bottom > top) {
        this.fill(this.palette.colours[this.cells.colourOf(job) | dim] as string, x, y + top, size, bottom - top);
        bottom = top - (size >= ROUNDED_FROM_PX ? 1 : 0);
      }
    }
  }

  /** Teams of the same hue differ by these: 1 a dot, 2 a slit, 3 a bar. */
  private paintMark(mark: number, colour: string, x: number, y: number, size: number): void {
    const thick = Math.max(1, Math.round(size / 4));
    const middle = (size - thick) >> 1;
    if (mark === 1) {
      this.fill(colour, x + middle, y + middle, thick, thick);
    } else if (mark === 2) {
      this.fill(colour, x + middle, y, thick, size);
    } else if (mark === 3) {
      this.fill(colour, x, y + middle, size, thick);
    }
  }

  private hatching(size: number): CanvasPattern | string {
    const period = Math.max(3, Math.round(size / 2.5));
    const key = `${this.palette.theme}/${period}`;
    if (this.hatchOf !== key) {
      this.hatchOf = key;
      this.hatch = hatchPattern(this.context, period, this.colour(AT.hatch)) ?? this.colour(AT.hatch);
    }
    return this.hatch;
  }

  private colour(index: number): string {
    return this.palette.colours[index] as string;
  }
}

/** Diagonal stripes, a third of the period wide. */
function hatchPattern(context: CanvasRenderingContext2D, period: number, colour: string): CanvasPattern | null {
  const tile = context.canvas.ownerDocument.createElement("canvas");
  tile.width = period;
  tile.height = period;
  const pen = tile.getContext("2d");
  if (!pen) {
    return null;
  }
  pen.fillStyle = colour;
  const stripe = Math.max(1, Math.round(period / 3));
  for (let row = 0; row < period; row++) {
    for (let nth = 0; nth < stripe; nth++) {
      pen.fillRect((period - row + nth) % period, row, 1, 1);
    }
  }
  return context.createPattern(tile, "repeat");
}
