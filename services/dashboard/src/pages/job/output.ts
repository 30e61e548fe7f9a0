/** A job's output as a bounded tail. Pure. */

import type { OutputLine } from "../../wire";

export const LINES_MAX = 2_000;

/** number: counted from the first line that is known of, so that it stays when older ones are dropped. */
export interface TailLine extends OutputLine {
  readonly number: number;
}

/** dropped: lines that were seen and made room for newer ones. */
export interface Tail {
  readonly lines: readonly TailLine[];
  readonly dropped: number;
}

export const NO_OUTPUT: Tail = { lines: [], dropped: 0 };

/**
 * With lines that came, each where its time belongs: the page that was asked for may come after lines of the stream, and
 * what both have is taken once. Lines of one moment keep the order in which they came.
 */
export function withLines(tail: Tail, coming: readonly OutputLine[]): Tail {
  const oldest = coming.reduce((least, line) => Math.min(least, line.at), Number.POSITIVE_INFINITY);
  const known = new Set(tail.lines.filter((line) => line.at >= oldest).map(keyOf));
  const fresh = coming.filter((line) => !known.has(keyOf(line)));
  if (!fresh.length) return tail;
  const all: OutputLine[] = [...tail.lines, ...fresh];
  if (oldest < (tail.lines.at(-1)?.at ?? 0)) all.sort((one, two) => one.at - two.at);
  const over = Math.max(0, all.length - LINES_MAX);
  const dropped = tail.dropped + over;
  return { lines: all.slice(over).map((line, index) => numbered(line, dropped + index + 1)), dropped };
}

/** The same line if it has its number already, so that it need not be drawn anew. */
function numbered(line: OutputLine | TailLine, number: number): TailLine {
  return "number" in line && line.number === number ? line : { ...line, number };
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
