/** A job's output as a bounded tail. Pure. */

import type { OutputLine } from "../../wire";

export const LINES_MAX = 2_000;

/** number: counted from the first line that was seen, so that it stays when older ones are dropped. */
export interface TailLine extends OutputLine {
  readonly number: number;
}

/** dropped: lines that were seen and made room for newer ones. */
export interface Tail {
  readonly lines: readonly TailLine[];
  readonly dropped: number;
}

export const NO_OUTPUT: Tail = { lines: [], dropped: 0 };

/** With lines that came. What was there already (the page that was fetched and the stream may overlap) is left out. */
export function withLines(tail: Tail, coming: readonly OutputLine[]): Tail {
  if (!coming.length) return tail;
  const newest = tail.lines[tail.lines.length - 1]?.at ?? 0;
  const known = new Set(tail.lines.filter((line) => line.at >= (coming[0]?.at ?? 0)).map(keyOf));
  const fresh = coming.filter((line) => line.at > newest || !known.has(keyOf(line)));
  let number = tail.dropped + tail.lines.length;
  const numbered = fresh.map((line) => {
    number += 1;
    return { ...line, number };
  });
  const all = [...tail.lines, ...numbered];
  const over = Math.max(0, all.length - LINES_MAX);
  return { lines: over ? all.slice(over) : all, dropped: tail.dropped + over };
}

/** Lines in which every word of the search occurs, whatever its case. */
export function matching(tail: Tail, search: string): readonly TailLine[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return tail.lines;
  return tail.lines.filter((line) => words.every((word) => line.text.toLowerCase().includes(word)));
}

/** Who printed a line: replica, with its group where there are several, and the run after the first. */
export function speaker(line: OutputLine, hasGroups: boolean): string {
  const replica = hasGroups ? `${line.group}.${line.replica}` : String(line.replica);
  return line.attempt > 1 ? `${replica} #${line.attempt}` : replica;
}

function keyOf(line: OutputLine): string {
  return `${line.at} ${line.group} ${line.replica} ${line.attempt} ${line.text}`;
}
