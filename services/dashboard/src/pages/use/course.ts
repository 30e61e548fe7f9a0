/** What a job's GPUs did over time as lines in a box: pure geometry. */

import type { InstantNs, JobUse } from "../../wire";

export const WIDTH = 600;
export const HEIGHT = 110;
const PCT_MAX = 100;

export interface Course {
  /** Points of SVG polylines in a box of WIDTH by HEIGHT; sm is "" where no exporter shows it. */
  busy: string;
  sm: string;
  fromNs: InstantNs;
  toNs: InstantNs;
}

/** Null before two columns are known. */
export function courseOf({ columns, column_s }: JobUse): Course | null {
  const first = columns[0];
  const last = columns.at(-1);
  if (!first || !last || first === last) {
    return null;
  }
  const x = (at: InstantNs): string => ((WIDTH * (at - first.at)) / (last.at - first.at)).toFixed(1);
  const y = (pct: number): string => (HEIGHT - (HEIGHT * Math.min(pct, PCT_MAX)) / PCT_MAX).toFixed(1);
  const shown = columns.flatMap(({ at, sm_active_pct }) =>
    sm_active_pct === null ? [] : `${x(at)},${y(sm_active_pct)}`,
  );
  return {
    busy: columns.map(({ at, busy_pct }) => `${x(at)},${y(busy_pct)}`).join(" "),
    sm: shown.length > 1 ? shown.join(" ") : "",
    fromNs: first.at,
    toNs: last.at + column_s * 1e9,
  };
}
