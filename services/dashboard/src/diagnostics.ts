/**
 * What this page costs and how late it is: always on, small rings, read by `d` and by `musterDiagnostics()`.
 *
 * Work of a frame is everything on the main thread that the live view causes until the frame is handed over: decoding
 * and applying what came since the frame before, drawing of subscribers, and Preact's rendering. A fact is painted when
 * the first task after its frame runs.
 */

import { options } from "preact";
import type { FactRow } from "./wire";

const KEPT = 4_096;

class Ring {
  #values: Float64Array = new Float64Array(KEPT);
  #count = 0;

  add(value: number): void {
    this.#values[this.#count % KEPT] = value;
    this.#count += 1;
  }

  clear(): void {
    this.#count = 0;
  }

  summary(): Summary {
    const kept = this.#values.slice(0, Math.min(this.#count, KEPT)).sort();
    const at = (share: number): number => kept[Math.min(kept.length - 1, Math.floor(share * kept.length))] ?? 0;
    return { count: this.#count, p50: at(0.5), p95: at(0.95), p99: at(0.99), max: kept[kept.length - 1] ?? 0 };
  }
}

/** Of the newest values; count: of all there ever were. */
export interface Summary {
  count: number;
  p50: number;
  p95: number;
  p99: number;
  max: number;
}

export interface Report {
  /** Broker's time-stamp of a fact until it was painted, if this machine's clock agrees with the broker's. */
  factToPaintedMs: Summary;
  /** Main-thread work of the live view, per frame in which there was some. */
  frameWorkMs: Summary;
  /** Decoding and applying of one message. */
  applyMs: Summary;
  snapshotMs: Summary;
  messages: number;
  bytes: number;
  snapshots: number;
  gaps: number;
  reconnects: number;
  /** Where the newest gap was; "" if there was none. */
  lastGap: string;
  /** From the page's beginning until the first snapshot was painted. */
  firstFilledMs: number;
}

const NS_PER_MS = 1e6;

class Diagnostics {
  readonly #painted = new Ring();
  readonly #frames = new Ring();
  readonly #applied = new Ring();
  readonly #snapshots = new Ring();
  #work = 0;
  #filling = false;
  #arrivedMs: number[] = [];
  #awaited: number[][] = [];
  #channel = new MessageChannel();
  counts = { messages: 0, bytes: 0, snapshots: 0, gaps: 0, reconnects: 0, lastGap: "", firstFilledMs: 0 };

  constructor() {
    this.#channel.port1.onmessage = () => this.#afterPaint();
    const render = (flush: () => void): void => {
      queueMicrotask(() => this.work(flush));
    };
    options.debounceRendering = render;
  }

  /** Do something that belongs to the frame to come, and count how long it took. Canvases use it for animations. */
  work<T>(what: () => T): T {
    const began = performance.now();
    try {
      return what();
    } finally {
      this.#work += performance.now() - began;
    }
  }

  /** Decode and apply one message of so many bytes. */
  message(bytes: number, apply: () => void): void {
    this.counts.messages += 1;
    this.counts.bytes += bytes;
    const before = this.#work;
    this.work(apply);
    this.#applied.add(this.#work - before);
  }

  arrived(facts: readonly FactRow[]): void {
    for (const fact of facts) {
      if (this.#arrivedMs.length < KEPT) {
        this.#arrivedMs.push(fact.time / NS_PER_MS);
      }
    }
  }

  snapshotTook(ms: number): void {
    this.#filling = this.counts.firstFilledMs === 0;
    this.counts.snapshots += 1;
    this.#snapshots.add(ms);
  }

  /** Draw a frame: called from requestAnimationFrame. */
  frame(draw: () => void): void {
    this.work(draw);
    this.#awaited.push(this.#arrivedMs);
    this.#arrivedMs = [];
    this.#channel.port2.postMessage(0);
  }

  report(): Report {
    return {
      factToPaintedMs: this.#painted.summary(),
      frameWorkMs: this.#frames.summary(),
      applyMs: this.#applied.summary(),
      snapshotMs: this.#snapshots.summary(),
      ...this.counts,
    };
  }

  clear(): void {
    for (const ring of [this.#painted, this.#frames, this.#applied, this.#snapshots]) {
      ring.clear();
    }
  }

  #afterPaint(): void {
    const nowMs = Date.now(); // not timeOrigin + now(): that clock does not follow when the machine's is set
    for (const timeMs of this.#awaited.shift() ?? []) {
      this.#painted.add(nowMs - timeMs);
    }
    this.#frames.add(this.#work);
    this.#work = 0;
    if (this.#filling) {
      this.#filling = false;
      this.counts.firstFilledMs = performance.now();
    }
  }
}

export const diagnostics = new Diagnostics();

declare global {
  /** For tests and for the curious, in the browser's console. */
  var musterDiagnostics: (() => Report) & { clear: () => void };
}

globalThis.musterDiagnostics = Object.assign(() => diagnostics.report(), { clear: () => diagnostics.clear() });
