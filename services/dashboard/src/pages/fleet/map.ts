/**
 * The map as it stands in the page: two canvases, their size, zoom and pan, pointer and keyboard. No framework.
 *
 * Below are the cells; above, drawn anew whenever it changes, what follows the pointer and the keyboard.
 */

import type { FleetCells } from "./cells";
import { Gestures, type Handled, type Point } from "./gestures";
import { type Hit, hit, type Move, move } from "./hit";
import { type Fit, fitAll, type Layout, layOut, metricsOf, PITCHES, type Shape, spread } from "./layout";
import { Painter } from "./painter";
import { AT, PALETTES, type Theme } from "./palette";
import { drawRing } from "./ring";
import { canMove, clamp, type Extent, reveal, type View } from "./view";

export interface Selection {
  node: string;
  /** -1: the node as a whole. */
  place: number;
}

export interface MapEvents {
  /** Something is under the pointer; x and y from the left and top of the map, in CSS pixels. */
  hovered: (found: Hit | undefined, x: number, y: number) => void;
  /** The keyboard's cursor moved. */
  moved: (cell: number) => void;
  opened: (selection: Selection) => void;
  closed: () => void;
  zoomed: (isFit: boolean) => void;
}

/** A log's slices come 20 times a second and are drawn in the frame that applies them; more than this is not. */
export const PAINT_EVERY_MS = 30;
const EMPTY: Fit = { pitchCss: 12, isTight: false, lines: [] };

const MOVES: Record<string, Move> = {
  ArrowLeft: "left",
  ArrowRight: "right",
  ArrowUp: "up",
  ArrowDown: "down",
  Home: "node-start",
  End: "node-end",
  PageUp: "rack-before",
  PageDown: "rack-after",
};

export class FleetMap {
  readonly painter: Painter;
  cursor = -1;
  private layout: Layout | undefined;
  private fitting: Fit = EMPTY;
  private pitchCss = 0;
  private selection: Selection | undefined;
  private hover: Hit | undefined;
  private isFocused = false;
  private ratio = 1;
  private paintedMs = Number.NEGATIVE_INFINITY;
  private scheduled = 0;
  private grabbed: View = { x: 0, y: 0 };
  private readonly pen: CanvasRenderingContext2D;
  private readonly stop = new AbortController();
  private readonly watcher: ResizeObserver;
  private readonly host: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly above: HTMLCanvasElement;
  private readonly cells: FleetCells;
  private readonly events: MapEvents;
  private readonly frame: (draw: () => void) => void;

  /** frame: called around everything that draws, to count what it costs. */
  constructor(
    parts: { host: HTMLElement; canvas: HTMLCanvasElement; above: HTMLCanvasElement },
    cells: FleetCells,
    events: MapEvents,
    options: { theme: Theme; frame: (draw: () => void) => void },
  ) {
    this.host = parts.host;
    this.canvas = parts.canvas;
    this.above = parts.above;
    this.cells = cells;
    this.events = events;
    this.frame = options.frame;
    this.painter = new Painter(parts.canvas, cells, PALETTES[options.theme], () => performance.now());
    const pen = parts.above.getContext("2d");
    if (!pen) {
      throw new Error("this browser gives no 2D canvas: use the table instead");
    }
    this.pen = pen;
    this.watcher = new ResizeObserver(() => this.resize());
    this.watcher.observe(parts.host);
    this.listen();
  }

  close(): void {
    this.stop.abort();
    this.watcher.disconnect();
    cancelAnimationFrame(this.scheduled);
  }

  setTheme(theme: Theme): void {
    this.painter.palette = PALETTES[theme];
    this.paintAll();
  }

  /** Draw what is dirty: now if the last time is long enough ago, else when it is. isSoon: not before the next frame. */
  paint({ isSoon = false } = {}): void {
    if (!isSoon && performance.now() - this.paintedMs >= PAINT_EVERY_MS) {
      this.paintNow();
    } else {
      this.schedule();
    }
  }

  /** Cells were arranged anew: places on the screen are to be found anew too. */
  arranged(): void {
    const { node } = this.cursorPlace();
    this.refit();
    this.cursor = node ? this.cellOf(node) : -1;
    this.hover = undefined;
    this.paintAll();
  }

  select(selection: Selection | undefined): void {
    this.selection = selection;
    this.paintAbove();
  }

  zoomBy(steps: number, anchor?: Point): void {
    const at = PITCHES.indexOf(this.pitchCss);
    const next = PITCHES[Math.min(PITCHES.length - 1, Math.max(0, at + steps))] as number;
    this.zoomTo(Math.max(next, Math.min(this.fitting.pitchCss, this.pitchCss)), anchor);
  }

  zoomToFit(): void {
    this.painter.view = { x: 0, y: 0 };
    this.zoomTo(this.fitting.pitchCss);
  }

  /** Bring a node into view. */
  show(node: string): void {
    const cell = this.cellOf(node);
    if (cell >= 0) {
      this.reveal(cell);
    }
  }

  /** Where a place of a node is, in CSS pixels from the left and top of the map; undefined if it is out of view. */
  boxOf(node: string, place: number): (Point & Extent) | undefined {
    const at = this.cells.indexOf(node);
    const { layout } = this;
    if (!layout || at < 0) {
      return undefined;
    }
    const last = (layout.cellBase[at + 1] as number) - 1;
    const cell = Math.min(last, (layout.cellBase[at] as number) + Math.max(0, place));
    const x = ((layout.cellX[cell] as number) + this.painter.view.x) / this.ratio;
    const y = ((layout.cellY[cell] as number) + this.painter.view.y) / this.ratio;
    const size = layout.metrics.cell / this.ratio;
    const isOut = x < 0 || y < 0 || x > this.canvas.width / this.ratio || y > this.canvas.height / this.ratio;
    return isOut ? undefined : { x, y, width: size, height: size };
  }

  /** Where the map's left top corner is in the window, in CSS pixels. */
  origin(): Point {
    const { x, y } = this.canvas.getBoundingClientRect();
    return { x, y };
  }

  get canZoomOut(): boolean {
    return this.pitchCss > this.fitting.pitchCss;
  }

  private cellOf(node: string): number {
    const at = this.cells.indexOf(node);
    return at < 0 ? -1 : (this.cells.base[at] as number);
  }

  private cursorPlace(): { node: string | undefined } {
    return { node: this.cursor < 0 ? undefined : this.cells.nodes[this.cells.nodeOf[this.cursor] ?? -1]?.name };
  }

  private shape(): Shape {
    const nameLength = this.cells.nodes.reduce((longest, node) => Math.max(longest, node.name.length), 0);
    return { racks: this.cells.racks, places: this.cells.places, nameLength };
  }

  private refit(): void {
    const wasFit = this.pitchCss === 0 || this.pitchCss === this.fitting.pitchCss;
    const shape = this.shape();
    const { width, height } = this.canvas;
    this.fitting = width > 0 ? fitAll(shape, width, height, this.ratio) : EMPTY;
    if (wasFit || this.pitchCss < this.fitting.pitchCss) {
      this.pitchCss = this.fitting.pitchCss;
    }
    this.place(shape);
    this.events.zoomed(!this.canZoomOut);
  }

  private place(shape: Shape): void {
    const isFit = this.pitchCss === this.fitting.pitchCss;
    const metrics = metricsOf(this.pitchCss, this.ratio, shape.nameLength, isFit && this.fitting.isTight);
    const spaced = isFit ? spread(shape, metrics, this.fitting.lines, this.canvas.height) : metrics;
    this.layout = layOut(shape, spaced, this.fitting.lines);
    this.painter.layout = this.layout;
    this.cells.setWorded(metrics.wordPx > 0);
    this.painter.view = clamp(this.painter.view, this.layout, this.canvas);
    this.canvas.style.touchAction = canMove(this.layout, this.canvas) ? "none" : "pan-y";
  }

  private zoomTo(pitchCss: number, anchor?: Point): void {
    if (pitchCss === this.pitchCss || !this.layout) {
      return;
    }
    const at = anchor ?? { x: this.canvas.width / 2 / this.ratio, y: this.canvas.height / 2 / this.ratio };
    const here = { x: at.x * this.ratio - this.painter.view.x, y: at.y * this.ratio - this.painter.view.y };
    const before = this.layout;
    this.pitchCss = pitchCss;
    this.place(this.shape());
    const there = samePlace(before, this.layout, here);
    const view = { x: Math.round(at.x * this.ratio - there.x), y: Math.round(at.y * this.ratio - there.y) };
    this.painter.view = clamp(view, this.layout, this.canvas);
    this.events.zoomed(!this.canZoomOut);
    this.paintAll();
  }

  private resize(): void {
    const ratio = window.devicePixelRatio || 1;
    const width = Math.max(1, Math.round(this.host.clientWidth * ratio));
    const height = Math.max(1, Math.round(this.host.clientHeight * ratio));
    if (width === this.canvas.width && height === this.canvas.height && ratio === this.ratio) {
      return;
    }
    this.ratio = ratio;
    for (const canvas of [this.canvas, this.above]) {
      canvas.width = width;
      canvas.height = height;
    }
    this.refit();
    this.paintAll();
  }

  private paintAll(): void {
    this.frame(() => this.painter.paintAll());
    this.paintedMs = performance.now();
    this.paintAbove();
  }

  private paintNow(): void {
    if (this.cells.dirty.size === 0) {
      return;
    }
    this.paintedMs = performance.now();
    if (this.painter.paintDirty() > 0) {
      this.schedule(0);
    }
  }

  private schedule(waitMs = PAINT_EVERY_MS - (performance.now() - this.paintedMs)): void {
    if (this.scheduled !== 0) {
      return;
    }
    const draw = (): void => {
      this.scheduled = requestAnimationFrame(() => {
        this.scheduled = 0;
        this.frame(() => this.paintNow());
      });
    };
    if (waitMs <= 8) {
      draw();
    } else {
      this.scheduled = -1;
      setTimeout(() => !this.stop.signal.aborted && draw(), waitMs);
    }
  }

  private panTo(view: View): void {
    const { layout } = this;
    if (layout) {
      const next = clamp(view, layout, this.canvas);
      if (next.x !== this.painter.view.x || next.y !== this.painter.view.y) {
        this.frame(() => this.painter.panTo(next));
        this.paintAbove();
      }
    }
  }

  private reveal(cell: number): void {
    const { layout } = this;
    if (layout) {
      const size = layout.metrics.pitch;
      const box = { x: layout.cellX[cell] as number, y: layout.cellY[cell] as number, width: size, height: size };
      this.panTo(reveal(this.painter.view, box, this.canvas, 3 * size));
    }
  }

  private paintAbove(): void {
    const { pen, layout } = this;
    pen.clearRect(0, 0, this.above.width, this.above.height);
    if (!layout) {
      return;
    }
    const { colours } = this.painter.palette;
    const [strong, faint] = [colours[AT.text] as string, colours[AT.faint] as string];
    const ring = (node: number, cell: number, colour: string, width: number, away: number): void =>
      drawRing(pen, layout, this.painter.view, {
        node,
        cell,
        colour,
        width: width * this.ratio,
        away: away * this.ratio,
      });
    if (this.hover) {
      ring(this.hover.node, this.hover.cell, faint, 1, 1);
    }
    if (this.selection) {
      const node = this.cells.indexOf(this.selection.node);
      ring(node, this.selection.place < 0 ? -1 : (layout.cellBase[node] ?? 0) + this.selection.place, strong, 2, 1);
    }
    if (this.isFocused && this.cursor >= 0) {
      ring(layout.nodeOf[this.cursor] as number, this.cursor, strong, 2, 3);
    }
  }

  private listen(): void {
    const { signal } = this.stop;
    const handled: Handled = {
      canMove: () => this.layout !== undefined && canMove(this.layout, this.canvas),
      grabbed: () => {
        this.grabbed = this.painter.view;
      },
      dragged: (x, y) => this.panTo({ x: this.grabbed.x + x * this.ratio, y: this.grabbed.y + y * this.ratio }),
      zoomed: (steps, at) => this.zoomBy(steps, at),
      pointed: (at) => this.hoverAt(at && this.find(at), at?.x ?? 0, at?.y ?? 0),
      clicked: (at) => this.clicked(at),
    };
    new Gestures(this.canvas, handled, signal);
    this.host.addEventListener("keydown", (event) => this.typed(event), { signal });
    this.host.addEventListener("focus", () => this.focused(true), { signal });
    this.host.addEventListener("blur", () => this.focused(false), { signal });
  }

  private find({ x, y }: Point): Hit | undefined {
    const { view } = this.painter;
    return this.layout && hit(this.layout, x * this.ratio - view.x, y * this.ratio - view.y);
  }

  private clicked(at: Point): void {
    const found = this.find(at);
    if (!found) {
      this.events.closed();
      return;
    }
    this.cursor = found.cell >= 0 ? found.cell : (this.layout?.cellBase[found.node] ?? -1);
    this.open(found.node, found.cell);
  }

  private open(node: number, cell: number): void {
    const name = this.cells.nodes[node]?.name;
    if (name !== undefined) {
      this.events.opened({ node: name, place: cell < 0 ? -1 : cell - (this.cells.base[node] as number) });
    }
  }

  private hoverAt(found: Hit | undefined, x: number, y: number): void {
    const isSame = found?.node === this.hover?.node && found?.cell === this.hover?.cell;
    this.hover = found;
    if (!isSame) {
      this.paintAbove();
    }
    this.events.hovered(found, x, y);
  }

  private focused(isFocused: boolean): void {
    this.isFocused = isFocused;
    if (isFocused && this.cursor < 0 && this.cells.count > 0) {
      this.moveTo(0);
    }
    this.paintAbove();
  }

  private moveTo(cell: number): void {
    this.cursor = cell;
    this.reveal(cell);
    this.paintAbove();
    this.events.moved(cell);
  }

  private typed(event: KeyboardEvent): void {
    if (event.altKey || event.target !== this.host || !this.layout || this.cells.count === 0) {
      return;
    }
    const edge = event.ctrlKey || event.metaKey ? ({ Home: "first", End: "last" } as const)[event.key] : undefined;
    const direction = edge ?? (event.ctrlKey || event.metaKey ? undefined : MOVES[event.key]);
    if (direction) {
      event.preventDefault();
      this.moveTo(move(this.layout, Math.max(0, this.cursor), direction));
      return;
    }
    if (event.ctrlKey || event.metaKey) {
      return;
    }
    const does: Record<string, () => void> = {
      Enter: () => this.cursor >= 0 && this.open(this.layout?.nodeOf[this.cursor] ?? 0, this.cursor),
      " ": () => this.cursor >= 0 && this.open(this.layout?.nodeOf[this.cursor] ?? 0, -1),
      Escape: () => this.events.closed(),
      "+": () => this.zoomBy(1, this.cursorPoint()),
      "=": () => this.zoomBy(1, this.cursorPoint()),
      "-": () => this.zoomBy(-1, this.cursorPoint()),
      "0": () => this.zoomToFit(),
    };
    const run = does[event.key];
    if (run) {
      event.preventDefault();
      run();
    }
  }

  private cursorPoint(): Point | undefined {
    const { layout } = this;
    if (!layout || this.cursor < 0) {
      return undefined;
    }
    const x = (layout.cellX[this.cursor] as number) + this.painter.view.x;
    const y = (layout.cellY[this.cursor] as number) + this.painter.view.y;
    return { x: x / this.ratio, y: y / this.ratio };
  }
}

/** The point of the new layout that shows what was at a point of the old one: by the nearest node. */
function samePlace(before: Layout, after: Layout, point: Point): Point {
  let best = -1;
  let least = Number.POSITIVE_INFINITY;
  for (let node = 0; node < before.nodeX.length; node++) {
    const away = Math.hypot((before.nodeX[node] as number) - point.x, (before.nodeY[node] as number) - point.y);
    if (away < least) {
      least = away;
      best = node;
    }
  }
  if (best < 0) {
    return point;
  }
  const scale = after.metrics.pitch / before.metrics.pitch;
  return {
    x: (after.nodeX[best] as number) + (point.x - (before.nodeX[best] as number)) * scale,
    y: (after.nodeY[best] as number) + (point.y - (before.nodeY[best] as number)) * scale,
  };
}
