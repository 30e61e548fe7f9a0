/**
 * Snapshot and join, after docs/concepts and `muster.schemas.live`: pure, so that every loss can be tried in a test.
 *
 * Slices that come before a snapshot wait in a bounded buffer. A slice below what an audience has is dropped; one whose
 * `prev` is above it tells that a slice was lost, also a pulse, which repeats where the audience stands: then everything
 * waits for a new snapshot, which is asked for at once, and ever more rarely if that goes on.
 */

import type { LiveSlice, Snapshot } from "../wire";
import { PUBLIC_AUDIENCE } from "../wire";

export const BUFFER_SLICES_MAX = 2_000;
/** Rows and facts that the buffer holds, all slices together. */
export const BUFFER_ITEMS_MAX = 20_000;
/** Between two snapshots that are asked for; doubled with each that did not help. */
export const SNAPSHOT_EVERY_MS = 500;
export const SNAPSHOT_EVERY_MS_MAX = 15_000;
/** Without a word of `public` for so long, what is shown is called stale. */
export const STALE_AFTER_MS = 3_000;
/** In a snapshot's sequences, for who may see every team: those that are not named. */
const OTHER_AUDIENCES = "*";
/** So long after a snapshot without a gap, the next gap is answered at once again. */
const CALM_AFTER_MS = 10_000;

export class Join {
  #seqs = new Map<string, number>();
  #heardAtMs = new Map<string, number>();
  #owed = new Map<string, Place>();
  #buffer: LiveSlice[] = [];
  #items = 0;
  #joined = false;
  #everJoined = false;
  #dueAtMs = Number.POSITIVE_INFINITY;
  #asking = false;
  #failures = 0;
  #joinedAtMs = 0;
  #sinceMs = 0;
  gaps = 0;
  /** Where the newest gap was, for people. */
  lastGap = "";
  dropped = 0;

  /** Whether slices are applied as they come; otherwise a snapshot is awaited. */
  get joined(): boolean {
    return this.#joined;
  }

  /** Where an audience of a cluster's log stands here. */
  seq(cluster: string, audience: string): number {
    return this.#seqs.get(key(cluster, audience)) ?? this.#seqs.get(key(cluster, OTHER_AUDIENCES)) ?? 0;
  }

  /**
   * Subscriptions stand. The first time a snapshot is wanted; after a break the next slice or pulse of each audience
   * tells whether anything was missed, and only then another one is.
   */
  connected(nowMs: number): void {
    this.#sinceMs = nowMs;
    if (!this.#everJoined) {
      this.#dueAtMs = nowMs;
    }
  }

  /** When a snapshot is to be asked for; infinite while none is, or one is under way. */
  get snapshotDueAtMs(): number {
    return this.#joined || this.#asking ? Number.POSITIVE_INFINITY : this.#dueAtMs;
  }

  snapshotAsked(): void {
    this.#asking = true;
  }

  /** It was refused or did not come. retryAfterMs: what the gateway asked for; jitter: 0 to 1, from the edge. */
  snapshotFailed(
    nowMs: number,
    { retryAfterMs = 0, jitter = 0 }: { retryAfterMs?: number; jitter?: number } = {},
  ): void {
    this.#asking = false;
    this.#wait(nowMs, retryAfterMs, jitter);
  }

  /** Begin from here. The slices that waited and are above it, in order, are to be applied after the snapshot. */
  snapshot(snapshot: Snapshot, nowMs: number): LiveSlice[] {
    this.#asking = false;
    this.#seqs = new Map();
    this.#owed.clear();
    for (const [cluster, audiences] of Object.entries(snapshot.seqs)) {
      for (const [audience, seq] of Object.entries(audiences)) {
        this.#seqs.set(key(cluster, audience), seq);
      }
    }
    this.#joined = true;
    this.#everJoined = true;
    this.#joinedAtMs = nowMs;
    const waiting = this.#buffer;
    this.#buffer = [];
    this.#items = 0;
    const next: LiveSlice[] = [];
    for (const [place, slice] of waiting.entries()) {
      next.push(...this.slice(slice, nowMs));
      if (!this.#joined) {
        this.#buffer = waiting.slice(place); // the gap is still there: all from here on waits for the next snapshot
        this.#items = this.#buffer.reduce((items, kept) => items + itemsOf(kept), 0);
        break;
      }
    }
    return next;
  }

  /** One slice as it came. What is returned is to be applied now; nothing while a snapshot is awaited. */
  slice(slice: LiveSlice, nowMs: number): LiveSlice[] {
    const audience = key(slice.cluster, slice.audience);
    this.#heardAtMs.set(audience, nowMs);
    if (!this.#joined) {
      this.#keep(slice);
      return [];
    }
    const mine = this.seq(slice.cluster, slice.audience);
    switch (judge(slice, mine, this.#owed.get(audience))) {
      case "gap":
        this.#gap(slice, nowMs);
        return [];
      case "drop":
        return [];
      case "apply": {
        this.#seqs.set(audience, slice.seq);
        const { part, parts } = slice;
        if (part < parts) {
          this.#owed.set(audience, { part: part + 1, parts });
        } else {
          this.#owed.delete(audience);
        }
        return [slice];
      }
    }
  }

  /** For how long the quietest log has said nothing in public; 0 where nothing ever happened. */
  silentMs(nowMs: number): number {
    let longest = 0;
    for (const [audience, seq] of this.#seqs) {
      if (seq > 0 && audience.endsWith(`/${PUBLIC_AUDIENCE}`)) {
        const heardAtMs = Math.max(this.#heardAtMs.get(audience) ?? 0, this.#joinedAtMs, this.#sinceMs);
        longest = Math.max(longest, nowMs - heardAtMs);
      }
    }
    return longest;
  }

  #gap(slice: LiveSlice, nowMs: number): void {
    this.gaps += 1;
    const mine = this.seq(slice.cluster, slice.audience);
    this.lastGap = `${key(slice.cluster, slice.audience)}: had ${mine}, came ${slice.seq} after ${slice.prev}`;
    this.#joined = false;
    this.#keep(slice);
    if (nowMs - this.#joinedAtMs > CALM_AFTER_MS) {
      this.#failures = 0;
      this.#dueAtMs = nowMs;
    } else {
      this.#wait(nowMs, 0, 0);
    }
  }

  #wait(nowMs: number, leastMs: number, jitter: number): void {
    const backoffMs = Math.min(SNAPSHOT_EVERY_MS * 2 ** this.#failures, SNAPSHOT_EVERY_MS_MAX);
    this.#failures += 1;
    this.#dueAtMs = nowMs + Math.max(leastMs, backoffMs * (1 + jitter));
  }

  /** What leaves the buffer is found missing by the next one's `prev`, unless the snapshot has it. */
  #keep(slice: LiveSlice): void {
    this.#buffer.push(slice);
    this.#items += itemsOf(slice);
    while (this.#buffer.length > BUFFER_SLICES_MAX || (this.#items > BUFFER_ITEMS_MAX && this.#buffer.length > 1)) {
      this.#items -= itemsOf(this.#buffer.shift());
      this.dropped += 1;
    }
  }
}

/** Which of the slices of one moment this is. */
interface Place {
  part: number;
  parts: number;
}

type Verdict = "apply" | "drop" | "gap";

/**
 * What becomes of a slice. mine: where its audience stands; owed: the part that must come next, if the moment before
 * was not told to its end: its parts share one sequence, so that alone does not tell that one is missing.
 */
function judge(slice: LiveSlice, mine: number, owed: Place | undefined): Verdict {
  const { part, parts } = slice;
  if (slice.prev > mine) {
    return "gap";
  }
  if (slice.seq < mine) {
    return "drop";
  }
  if (owed) {
    if (part === owed.part && parts === owed.parts) {
      return "apply";
    }
    return slice.seq === mine && parts === owed.parts && part < owed.part ? "drop" : "gap";
  }
  return slice.seq > mine ? "apply" : "drop";
}

function itemsOf(slice: LiveSlice | undefined): number {
  return slice ? slice.jobs.length + slice.nodes.length + slice.queues.length + slice.facts.length : 0;
}

function key(cluster: string, audience: string): string {
  return `${cluster}/${audience}`;
}
