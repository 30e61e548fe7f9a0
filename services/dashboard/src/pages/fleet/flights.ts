/**
 * Draws devices between the pool beside the map and their nodes, over both.
 *
 * Nothing runs while nothing moves. Who asked the system for less motion sees the way as a line and the device at the
 * end where it is, without anything travelling.
 */

import type { FleetCells } from "./cells";
import type { FleetMap } from "./map";
import { TEAM_HUES, type Theme } from "./palette";
import { isLeaving, isUnderWay, type Moving, type Pool, progress } from "./pool";

const FRAME_EVERY_MS = 45;
const STILL_EVERY_MS = 500;
const TOKEN_PX_MIN = 11;
const TRAIL = 12;
const TRAIL_STEP = 0.014;
/** Those that move at once go side by side. */
const BOW = 0.14;
const BOW_STEP = 0.025;
const LANES = 6;

interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

interface Ends {
  pool: Box;
  node: Box;
  bow: number;
}

interface Colours {
  token: string;
  edge: string;
  line: string;
  failed: string;
}

const COLOURS: Record<Theme, Colours> = {
  dark: { token: TEAM_HUES.dark[5] as string, edge: "#0d1015", line: "#7aa9ff", failed: "#ff8a8f" },
  light: { token: "#1d55d0", edge: "#ffffff", line: "#1d55d0", failed: "#b3202c" },
};

export class Flights {
  private readonly pen: CanvasRenderingContext2D;
  private readonly canvas: HTMLCanvasElement;
  private readonly pool: Pool;
  private readonly map: FleetMap;
  private readonly cells: FleetCells;
  private readonly frame: (draw: () => void) => void;
  private readonly still = matchMedia("(prefers-reduced-motion: reduce)");
  private readonly targets = new Map<string, number>();
  private timer = 0;
  private request = 0;
  private closed = false;
  theme: Theme = "dark";

  /** canvas: covers the map and the strip. In the strip, `[data-pool="<fabric>/<model>"]` is where devices lie. */
  constructor(
    canvas: HTMLCanvasElement,
    parts: { pool: Pool; map: FleetMap; cells: FleetCells; frame: (draw: () => void) => void },
  ) {
    const pen = canvas.getContext("2d");
    if (!pen) {
      throw new Error("this browser gives no 2D canvas");
    }
    this.canvas = canvas;
    this.pen = pen;
    this.pool = parts.pool;
    this.map = parts.map;
    this.cells = parts.cells;
    this.frame = parts.frame;
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    cancelAnimationFrame(this.request);
  }

  /** Something may have begun to move. */
  wake(): void {
    if (this.timer === 0 && this.request === 0 && !this.closed) {
      this.next();
    }
  }

  private next(): void {
    this.request = requestAnimationFrame(() => {
      this.request = 0;
      this.frame(() => this.draw(performance.now()));
      if (this.closed) {
        return;
      }
      if (this.pool.isBusy(performance.now())) {
        const wait = this.still.matches ? STILL_EVERY_MS : FRAME_EVERY_MS - 8;
        this.timer = window.setTimeout(() => {
          this.timer = 0;
          this.next();
        }, wait);
      } else {
        this.clear();
      }
    });
  }

  private clear(): void {
    this.pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.targets.clear();
  }

  private draw(nowMs: number): void {
    const ratio = window.devicePixelRatio || 1;
    const frame = this.canvas.getBoundingClientRect();
    const [width, height] = [Math.round(frame.width * ratio), Math.round(frame.height * ratio)];
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
    }
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.pen.clearRect(0, 0, frame.width, frame.height);
    const lanes = new Map<string, number>();
    for (const moving of this.pool.moving.values()) {
      if (isUnderWay(moving, nowMs)) {
        const of = `${moving.fabric}/${moving.model}/${isLeaving(moving)}`;
        const lane = lanes.get(of) ?? 0;
        lanes.set(of, lane + 1);
        const ends = this.ends(moving, lane, frame);
        if (ends) {
          this.drawOne(moving, ends, nowMs);
        }
      }
    }
  }

  private drawOne(moving: Moving, ends: Ends, nowMs: number): void {
    const colours = COLOURS[this.theme];
    const isFailed = moving.leg === "failed";
    const along = this.still.matches ? Math.round(progress(moving, nowMs)) : progress(moving, nowMs);
    const colour = isFailed ? colours.failed : colours.token;
    if (moving.leg !== "node") {
      this.drawWay(ends, isFailed ? colours.failed : colours.line, nowMs, moving);
    }
    if (moving.leg === "pool" || moving.leg === "arriving") {
      this.drawPulse(moving.leg === "pool" ? ends.pool : ends.node, colour, nowMs);
    }
    if (!this.still.matches && (moving.leg === "to-node" || moving.leg === "to-pool")) {
      this.drawTrail(ends, along, moving.leg === "to-node" ? -1 : 1, colour);
    }
    const { x, y } = pointAt(ends, along);
    const size = sizeAt(ends, along);
    this.pen.fillStyle = colour;
    this.pen.strokeStyle = colours.edge;
    this.pen.lineWidth = 2;
    this.pen.beginPath();
    this.pen.roundRect(x - size / 2, y - size / 2, size, size, size * 0.22);
    this.pen.fill();
    this.pen.stroke();
  }

  private drawWay(ends: Ends, colour: string, nowMs: number, moving: Moving): void {
    const { pen } = this;
    const [from, to, bend] = curve(ends);
    pen.globalAlpha = 0.45;
    pen.strokeStyle = colour;
    pen.lineWidth = 1.25;
    pen.setLineDash([4, 5]);
    const pace = this.still.matches ? 0 : (nowMs / 40) % 9;
    pen.lineDashOffset = moving.leg === "to-pool" || moving.leg === "returning" ? pace : -pace;
    pen.beginPath();
    pen.moveTo(from.x, from.y);
    pen.quadraticCurveTo(bend.x, bend.y, to.x, to.y);
    pen.stroke();
    pen.setLineDash([]);
    pen.globalAlpha = 1;
  }

  private drawTrail(ends: Ends, along: number, side: -1 | 1, colour: string): void {
    const { pen } = this;
    pen.strokeStyle = colour;
    pen.lineCap = "round";
    for (let nth = TRAIL; nth > 0; nth--) {
      const [from, to] = [along + side * nth * TRAIL_STEP, along + side * (nth - 1) * TRAIL_STEP];
      if (from < 0 || from > 1) {
        continue;
      }
      const [start, end] = [pointAt(ends, from), pointAt(ends, to)];
      const rest = 1 - nth / (TRAIL + 1);
      pen.globalAlpha = 0.1 + 0.3 * rest;
      pen.lineWidth = 1 + sizeAt(ends, from) * 0.55 * rest;
      pen.beginPath();
      pen.moveTo(start.x, start.y);
      pen.lineTo(end.x, end.y);
      pen.stroke();
    }
    pen.globalAlpha = 1;
    pen.lineCap = "butt";
  }

  private drawPulse(box: Box, colour: string, nowMs: number): void {
    const { pen } = this;
    const phase = this.still.matches ? 0.4 : (nowMs % 1_200) / 1_200;
    const away = 2 + 8 * phase;
    pen.globalAlpha = 1 - phase;
    pen.strokeStyle = colour;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.roundRect(box.x - away, box.y - away, box.width + 2 * away, box.height + 2 * away, 3 + away);
    pen.stroke();
    pen.globalAlpha = 1;
  }

  /** Both ends in the canvas's CSS pixels; undefined while one of them is not to be seen. */
  private ends(moving: Moving, lane: number, frame: DOMRect): Ends | undefined {
    const pool = this.poolBox(moving, lane, frame);
    const inMap = this.map.boxOf(moving.node, this.placeOf(moving));
    if (!pool || !inMap) {
      return undefined;
    }
    const origin = this.map.origin();
    const node = { ...inMap, x: inMap.x + origin.x - frame.x, y: inMap.y + origin.y - frame.y };
    return { pool, node, bow: BOW + BOW_STEP * (lane % LANES) };
  }

  private poolBox(moving: Moving, lane: number, frame: DOMRect): Box | undefined {
    const name = `${moving.fabric}/${moving.model}`;
    const models = this.canvas.parentElement?.querySelectorAll<HTMLElement>("[data-pool]") ?? [];
    const model = [...models].find((element) => element.dataset["pool"] === name);
    const slots = [...(model?.querySelectorAll<HTMLElement>("[data-slot]") ?? [])];
    const kind = isLeaving(moving) ? "reserved" : "out";
    const fits = slots.filter((element) => element.dataset["slot"] === kind);
    const slot = fits[lane] ?? fits.at(-1) ?? slots.at(-1);
    const box = slot?.getBoundingClientRect();
    return (
      box && {
        x: box.x - frame.x,
        y: box.y - frame.y,
        width: Math.min(box.width, 24),
        height: Math.min(box.height, 24),
      }
    );
  }

  /** Which place of its node a device comes to, or goes from; chosen once per way. */
  private placeOf(moving: Moving): number {
    const key = `${moving.id}/${moving.leg === "to-pool" || moving.leg === "returning" ? "back" : "out"}`;
    const known = this.targets.get(key);
    if (known !== undefined) {
      return known;
    }
    const taken = new Set(
      [...this.targets]
        .filter(([other]) => this.pool.moving.get(other.split("/")[0] ?? "")?.node === moving.node)
        .map(([, place]) => place),
    );
    const place = this.cells.placeFor(moving.node, key.endsWith("/out") ? "absent" : "free", taken);
    this.targets.set(key, place);
    return place;
  }
}

interface Point {
  x: number;
  y: number;
}

/** A bow that stays below the upper edge, where the map would cut it off. */
function curve({ pool, node, bow }: Ends): [from: Point, to: Point, bend: Point] {
  const from = { x: pool.x + pool.width / 2, y: pool.y + pool.height / 2 };
  const to = { x: node.x + node.width / 2, y: node.y + node.height / 2 };
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const middle = { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 };
  const [aside, down] = [-dy * bow, dx * bow];
  const sign = middle.y - Math.abs(down) < 0 ? Math.sign(down) || 1 : -(Math.sign(down) || 1);
  return [from, to, { x: middle.x + sign * aside, y: middle.y + sign * down }];
}

function pointAt(ends: Ends, along: number): Point {
  const [from, to, bend] = curve(ends);
  const rest = 1 - along;
  return {
    x: rest * rest * from.x + 2 * rest * along * bend.x + along * along * to.x,
    y: rest * rest * from.y + 2 * rest * along * bend.y + along * along * to.y,
  };
}

/** As large as the slot at one end, as the cell at the other, never too small to follow, larger in the air. */
function sizeAt({ pool, node }: Ends, along: number): number {
  const size = Math.max(TOKEN_PX_MIN, pool.width) * (1 - along) + Math.max(TOKEN_PX_MIN - 3, node.width) * along;
  return size * (1 + 0.5 * Math.sin(Math.PI * along));
}
