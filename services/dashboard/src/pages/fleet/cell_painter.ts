/**
 * Draws single cells: a rectangle in the colour of its look, and the signs that say without colour what it is.
 *
 * Opaque rectangles on whole device pixels, colours from a table: nothing is measured, nothing allocated per cell. Where
 * cells are large there are few: then whole nodes are drawn, with round corners and words.
 */

import type { FleetCells } from "./cells";
import type { Layout } from "./layout";
import { COLOUR, DIM, HATCHED, JOINED, Kind, kindOf, markOf } from "./look";
import { AT, type Palette } from "./palette";
import type { View } from "./view";

const ROUNDED_FROM_PX = 12;
const CORNER = 0.18;
/** Of an average letter, in parts of the font's size. */
const LETTER = 0.6;

export class CellPainter {
  view: View = { x: 0, y: 0 };
  layout: Layout | undefined;
  palette: Palette;
  protected readonly context: CanvasRenderingContext2D;
  protected readonly canvas: HTMLCanvasElement;
  protected readonly cells: FleetCells;
  private hatch: CanvasPattern | string = "";
  private hatchOf = "";
  private filled = "";
  /** Cells whose gap to the right is painted in their colour now. */
  private joined = new Uint8Array(0);

  constructor(canvas: HTMLCanvasElement, cells: FleetCells, palette: Palette) {
    const context = canvas.getContext("2d", { alpha: false });
    if (!context) {
      throw new Error("this browser gives no 2D canvas: use the table instead");
    }
    this.canvas = canvas;
    this.cells = cells;
    this.palette = palette;
    this.context = context;
  }

  /** Whether cells are drawn with all others of their node. */
  protected get isLarge(): boolean {
    return (this.layout?.metrics.cell ?? 0) >= ROUNDED_FROM_PX;
  }

  /** Somebody else drew: no gap is in a cell's colour any more. */
  protected forgetGaps(): void {
    this.joined = new Uint8Array(this.cells.count);
  }

  /** Somebody else set the colour that is filled with. */
  protected forgetColour(): void {
    this.filled = "";
  }

  protected colour(index: number): string {
    return this.palette.colours[index] as string;
  }

  /** All cells of a node. */
  protected paintNode(layout: Layout, node: number): void {
    const last = layout.cellBase[node + 1] as number;
    for (let cell = layout.cellBase[node] as number; cell < last; cell++) {
      this.paintCell(cell);
    }
    if (layout.metrics.wordPx > 0) {
      this.paintWords(layout, node);
    }
  }

  /** What each run of cells of one look is, where there is room to say it. */
  private paintWords(layout: Layout, node: number): void {
    const { context, cells } = this;
    const { pitch, cell: size, wordPx } = layout.metrics;
    context.font = `500 ${wordPx}px system-ui, sans-serif`;
    context.textBaseline = "middle";
    this.forgetColour();
    const last = layout.cellBase[node + 1] as number;
    for (let cell = layout.cellBase[node] as number; cell < last; ) {
      let end = cell;
      while (((cells.look[end] as number) & JOINED) !== 0 && layout.cellY[end + 1] === layout.cellY[cell]) {
        end++;
      }
      const look = cells.look[cell] as number;
      const word = (look & DIM) === 0 && kindOf(look) === Kind.solid ? cells.wordOf(cell) : "";
      const room = (end - cell) * pitch + size - 0.5 * wordPx;
      const shown = clip(word, room / (LETTER * wordPx));
      if (shown) {
        context.fillStyle = this.palette.inks[look & COLOUR] as string;
        const x = (layout.cellX[cell] as number) + this.view.x + 0.35 * wordPx;
        context.fillText(shown, x, (layout.cellY[cell] as number) + this.view.y + size / 2 + 1, room);
      }
      cell = end + 1;
    }
  }

  /** The cell, and the gap to its right, which is its own. */
  protected paintCell(cell: number): void {
    const layout = this.layout as Layout;
    const { pitch, cell: size } = layout.metrics;
    const x = (layout.cellX[cell] as number) + this.view.x;
    const y = (layout.cellY[cell] as number) + this.view.y;
    if (x + pitch <= 0 || y + size <= 0 || x >= this.canvas.width || y >= this.canvas.height) {
      return;
    }
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
      const round = Math.round(size * CORNER);
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
      context.roundRect(x + line / 2, y + line / 2, size - line, size - line, Math.max(1, size * CORNER - line / 2));
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
}

/** As many letters as there is room for, if that says anything. */
function clip(word: string, letters: number): string {
  if (word.length <= letters) {
    return word;
  }
  const kept = Math.floor(letters) - 1;
  return kept >= 3 ? `${word.slice(0, kept)}…` : "";
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
