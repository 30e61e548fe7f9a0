/**
 * The map as it stands in the page: two canvases, their size, zoom and pan, pointer and keyboard. No framework.
 *
 * Below are the cells; above, drawn anew whenever it changes, what follows the pointer and the keyboard.
 */

import type { FleetCells } from "./cells";
import { type Hit, hit, type Move, move } from "./hit";
import { type Fit, fitAll, type Layout, layOut, metricsOf, PITCHES, type Shape } from "./layout";
import { Painter } from "./painter";
import { AT, PALETTES, type Theme } from "./palette";
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

/** Twenty times a second is smooth for cells, and leaves the machine to those who work on it. */
export const PAINT_EVERY_MS = 50;
const DRAG_PX = 5;
const PINCH_STEP = 1.18;
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

interface Point {
  x: number;
  y: number;
}

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
  private readonly pointers = new Map<number, Point>();
  private drag: { from: Point; view: View; isMoving: boolean } | undefined;
  private pinch = 0;
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

  /** Draw what is dirty: now if the last time is long enough ago, else when it is. */
  paint(): void {
    if (performance.now() - this.paintedMs >= PAINT_EVERY_MS) {
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
    const isTight = this.fitting.isTight && this.pitchCss === this.fitting.pitchCss;
    const metrics = metricsOf(this.pitchCss, this.ratio, shape.nameLength, isTight);
    this.layout = layOut(shape, metrics, this.fitting.lines);
    this.painter.layout = this.layout;
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
    const colours = this.painter.palette.colours;
    if (this.hover) {
      this.ring(this.hover.node, this.hover.cell, colours[AT.faint] as string, 1);
    }
    if (this.selection) {
      const node = this.cells.indexOf(this.selection.node);
      const cell = this.selection.place < 0 ? -1 : (layout.cellBase[node] ?? 0) + this.selection.place;
      this.ring(node, cell, colours[AT.text] as string, 2);
    }
    if (this.isFocused && this.cursor >= 0) {
      this.ring(layout.nodeOf[this.cursor] as number, this.cursor, colours[AT.text] as string, 2, 2);
    }
  }

  /** A frame around a cell, or around a whole node. */
  private ring(node: number, cell: number, colour: string, width: number, away = 0): void {
    const { layout, pen, ratio } = this;
    if (!layout || node < 0 || node >= layout.nodeX.length) {
      return;
    }
    const { metrics } = layout;
    const first = cell < 0 ? (layout.cellBase[node] as number) : cell;
    const last = cell < 0 ? (layout.cellBase[node + 1] as number) - 1 : cell;
    const left = Math.min(...range(first, last).map((at) => layout.cellX[at] as number)) + this.painter.view.x;
    const right = Math.max(...range(first, last).map((at) => layout.cellX[at] as number)) + this.painter.view.x;
    const top = (layout.cellY[first] as number) + this.painter.view.y;
    const bottom = (layout.cellY[last] as number) + this.painter.view.y;
    const line = width * ratio;
    const gap = (1 + away) * ratio;
    pen.lineWidth = line;
    pen.strokeStyle = colour;
    pen.beginPath();
    pen.roundRect(
      left - gap - line / 2,
      top - gap - line / 2,
      right - left + metrics.cell + 2 * gap + line,
      bottom - top + metrics.cell + 2 * gap + line,
      metrics.cell * 0.2 + gap,
    );
    pen.stroke();
  }

  private listen(): void {
    const { canvas, host, stop } = this;
    const on = <K extends keyof HTMLElementEventMap>(
      target: HTMLElement,
      name: K,
      does: (event: HTMLElementEventMap[K]) => void,
      passive = true,
    ): void => target.addEventListener(name, does, { signal: stop.signal, passive });
    on(canvas, "pointerdown", (event) => this.pressed(event));
    on(canvas, "pointermove", (event) => this.pointed(event));
    on(canvas, "pointerup", (event) => this.released(event));
    on(canvas, "pointercancel", (event) => this.pointers.delete(event.pointerId));
    on(canvas, "pointerleave", () => this.hoverAt(undefined, 0, 0));
    on(canvas, "dblclick", (event) => this.zoomBy(3, this.at(event)));
    on(canvas, "wheel", (event) => this.wheeled(event), false);
    on(host, "keydown", (event) => this.typed(event), false);
    on(host, "focus", () => this.focused(true));
    on(host, "blur", () => this.focused(false));
  }

  private at(event: MouseEvent): Point {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private find({ x, y }: Point): Hit | undefined {
    const { view } = this.painter;
    return this.layout && hit(this.layout, x * this.ratio - view.x, y * this.ratio - view.y);
  }

  private pressed(event: PointerEvent): void {
    this.pointers.set(event.pointerId, this.at(event));
    this.drag = { from: this.at(event), view: this.painter.view, isMoving: false };
    this.pinch = this.spread();
  }

  private pointed(event: PointerEvent): void {
    const here = this.at(event);
    if (this.pointers.has(event.pointerId)) {
      this.pointers.set(event.pointerId, here);
    }
    if (this.pointers.size === 2) {
      this.pinched();
      return;
    }
    const { drag } = this;
    if (drag && this.pointers.size === 1) {
      const [dx, dy] = [here.x - drag.from.x, here.y - drag.from.y];
      drag.isMoving ||= Math.hypot(dx, dy) > DRAG_PX;
      if (drag.isMoving) {
        this.canvas.setPointerCapture(event.pointerId);
        this.panTo({ x: drag.view.x + dx * this.ratio, y: drag.view.y + dy * this.ratio });
        return;
      }
    }
    if (event.pointerType !== "touch") {
      this.hoverAt(this.find(here), here.x, here.y);
    }
  }

  private released(event: PointerEvent): void {
    const wasClick = this.drag !== undefined && !this.drag.isMoving && this.pointers.size === 1 && event.button === 0;
    this.pointers.delete(event.pointerId);
    this.drag = undefined;
    if (!wasClick) {
      return;
    }
    const found = this.find(this.at(event));
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

  private spread(): number {
    const [a, b] = [...this.pointers.values()];
    return a && b ? Math.hypot(a.x - b.x, a.y - b.y) : 0;
  }

  private pinched(): void {
    const now = this.spread();
    const [a, b] = [...this.pointers.values()];
    if (!a || !b || this.pinch === 0) {
      this.pinch = now;
      return;
    }
    const middle = { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
    if (now > this.pinch * PINCH_STEP || now < this.pinch / PINCH_STEP) {
      this.zoomBy(now > this.pinch ? 1 : -1, middle);
      this.pinch = now;
    }
    if (this.drag) {
      this.drag.isMoving = true;
    }
  }

  private wheeled(event: WheelEvent): void {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.zoomBy(event.deltaY < 0 ? 1 : -1, this.at(event));
    } else if (this.layout && canMove(this.layout, this.canvas)) {
      event.preventDefault();
      const { view } = this.painter;
      this.panTo({ x: view.x - event.deltaX * this.ratio, y: view.y - event.deltaY * this.ratio });
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

const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, at) => from + at);

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
