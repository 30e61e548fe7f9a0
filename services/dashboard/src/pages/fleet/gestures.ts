/** What fingers, mouse and wheel do to the map: pan, zoom, point, click. Positions are in CSS pixels of the map. */

export interface Point {
  x: number;
  y: number;
}

export interface Handled {
  /** Whether there is anything beyond the edges. */
  canMove: () => boolean;
  /** Moved so far since the press began. */
  dragged: (byX: number, byY: number) => void;
  /** Where the view stands now is where the next drag begins. */
  grabbed: () => void;
  zoomed: (steps: number, at: Point) => void;
  pointed: (at: Point | undefined) => void;
  clicked: (at: Point) => void;
}

const DRAG_PX = 5;
const PINCH_STEP = 1.18;
const DOUBLE_CLICK_STEPS = 3;

export class Gestures {
  private readonly pointers = new Map<number, Point>();
  private from: Point | undefined;
  private isMoving = false;
  private pinch = 0;
  private readonly canvas: HTMLElement;
  private readonly does: Handled;

  constructor(canvas: HTMLElement, does: Handled, signal: AbortSignal) {
    this.canvas = canvas;
    this.does = does;
    const on = <K extends keyof HTMLElementEventMap>(name: K, run: (event: HTMLElementEventMap[K]) => void): void =>
      canvas.addEventListener(name, run, { signal, passive: name !== "wheel" });
    on("pointerdown", (event) => this.pressed(event));
    on("pointermove", (event) => this.moved(event));
    on("pointerup", (event) => this.released(event));
    on("pointercancel", (event) => this.ended(event));
    on("pointerleave", () => does.pointed(undefined));
    on("dblclick", (event) => does.zoomed(DOUBLE_CLICK_STEPS, this.at(event)));
    on("wheel", (event) => this.wheeled(event));
  }

  private at(event: MouseEvent): Point {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private pressed(event: PointerEvent): void {
    this.pointers.set(event.pointerId, this.at(event));
    this.from = this.at(event);
    this.isMoving = this.pointers.size > 1;
    this.pinch = this.spread();
    this.does.grabbed();
  }

  private moved(event: PointerEvent): void {
    const here = this.at(event);
    if (this.pointers.has(event.pointerId)) {
      this.pointers.set(event.pointerId, here);
    }
    if (this.pointers.size > 1) {
      this.pinched();
      return;
    }
    if (this.from && this.pointers.size === 1) {
      const [dx, dy] = [here.x - this.from.x, here.y - this.from.y];
      this.isMoving ||= Math.hypot(dx, dy) > DRAG_PX;
      if (this.isMoving) {
        this.canvas.setPointerCapture(event.pointerId);
        this.does.dragged(dx, dy);
        return;
      }
    }
    if (event.pointerType !== "touch") {
      this.does.pointed(here);
    }
  }

  private released(event: PointerEvent): void {
    const isClick = this.from !== undefined && !this.isMoving && this.pointers.size === 1 && event.button === 0;
    this.ended(event);
    if (isClick) {
      this.does.clicked(this.at(event));
    }
  }

  private ended(event: PointerEvent): void {
    this.pointers.delete(event.pointerId);
    this.from = undefined;
  }

  private spread(): number {
    const [a, b] = [...this.pointers.values()];
    return a && b ? Math.hypot(a.x - b.x, a.y - b.y) : 0;
  }

  private pinched(): void {
    const now = this.spread();
    const [a, b] = [...this.pointers.values()];
    if (a && b && this.pinch > 0 && (now > this.pinch * PINCH_STEP || now < this.pinch / PINCH_STEP)) {
      this.does.zoomed(now > this.pinch ? 1 : -1, { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 });
      this.pinch = now;
    }
  }

  private wheeled(event: WheelEvent): void {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.does.zoomed(event.deltaY < 0 ? 1 : -1, this.at(event));
    } else if (this.does.canMove()) {
      event.preventDefault();
      this.does.grabbed();
      this.does.dragged(-event.deltaX, -event.deltaY);
    }
  }
}
