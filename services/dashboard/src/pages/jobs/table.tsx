/**
 * The table of jobs: lines of a source that knows its length, of which only those in sight are in the document.
 *
 * A row is drawn anew only when its job changed or a second passed. While the person points at the table its order is
 * held, and where they have scrolled to stays where it is when rows come in above.
 */

import type { ComponentChildren } from "preact";
import { memo } from "preact/compat";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { navigate } from "../../route";
import { Badge } from "../../ui";
import type { JobView } from "../../wire";
import type { Group, Line } from "./board";
import { useIsNarrow } from "./clock";
import { COLUMNS, type ColumnName, columnOf } from "./columns";
import { ago, duration, gpus, heldGpus, placeOrReason, timeInPhaseS } from "./words";

export const ROW_PX = 32;
const ROW_NARROW_PX = 54;
const SPARE_ROWS = 6;

export interface Source {
  readonly length: number;
  lines: (start: number, count: number) => readonly Line[];
  /** Where a job stands now, -1 if nowhere. */
  indexOf: (id: string) => number;
}

interface JobTableProps {
  label: string;
  source: Source;
  /** Changes whenever the source's lines may have. */
  version: number;
  nowNs: number;
  sort: ColumnName | "";
  descending: boolean;
  onSort?: (name: ColumnName) => void;
  onToggle?: (group: string) => void;
  onPointing?: (isPointing: boolean) => void;
  /** Below the last row. */
  foot?: ComponentChildren;
  /** Called when the last rows come into sight. */
  onEnd?: () => void;
}

interface Shown {
  readonly name: ColumnName;
  readonly width?: string;
  readonly right?: boolean;
  readonly wideOnly?: boolean;
}

const SHOWN: readonly Shown[] = [
  { name: "phase", width: "116px" },
  { name: "name" },
  { name: "team", width: "10%" },
  { name: "queue", width: "10%", wideOnly: true },
  { name: "user", width: "9%", wideOnly: true },
  { name: "gpus", width: "72px", right: true },
  { name: "node", width: "19%" },
  { name: "time", width: "92px", right: true },
  { name: "priority", width: "74px", right: true, wideOnly: true },
  { name: "submitted", width: "112px", right: true, wideOnly: true },
];
const SHOWN_NARROW: readonly Shown[] = [{ name: "name" }, { name: "phase", width: "104px", right: true }];

export function JobTable(props: JobTableProps) {
  const { source, version, nowNs, onEnd } = props;
  const isNarrow = useIsNarrow();
  const rowPx = isNarrow ? ROW_NARROW_PX : ROW_PX;
  const shown = isNarrow ? SHOWN_NARROW : SHOWN;
  const scroller = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  useLayoutEffect(() => {
    const box = scroller.current;
    if (!box) return undefined;
    const measure = () => setView({ top: box.scrollTop, height: box.clientHeight });
    measure();
    const watcher = new ResizeObserver(measure);
    watcher.observe(box);
    return () => watcher.disconnect();
  }, []);
  useAnchor(scroller, source, version, rowPx);
  const first = Math.max(0, Math.min(source.length, Math.floor(view.top / rowPx)) - SPARE_ROWS);
  const count = Math.ceil(view.height / rowPx) + 2 * SPARE_ROWS;
  const lines = source.lines(first, count);
  const isAtEnd = first + count >= source.length;
  useLayoutEffect(() => {
    if (isAtEnd) onEnd?.();
  }, [isAtEnd, source.length]);
  return (
    <section
      class="table-scroll jobs-scroll"
      ref={scroller}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
      tabIndex={0}
      aria-label={props.label}
      onScroll={(event) => {
        const { scrollTop, clientHeight } = event.currentTarget;
        if (Math.abs(scrollTop - view.top) >= rowPx || clientHeight !== view.height || scrollTop === 0) {
          setView({ top: scrollTop, height: clientHeight });
        }
      }}
      onPointerMove={() => props.onPointing?.(true)}
      onPointerLeave={() => props.onPointing?.(false)}
      onKeyDown={(event) => moveFocus(event, scroller.current, source.length, rowPx)}
    >
      <table class="table jobs-table" aria-label={props.label} aria-rowcount={source.length + 1}>
        <Head shown={shown} {...props} />
        <tbody style={spaces(first, source.length - first - lines.length, rowPx)}>
          {lines.map((line, offset) =>
            "group" in line ? (
              <GroupRow
                key={`group ${line.group.name}`}
                line={line}
                place={first + offset}
                columns={shown.length}
                onToggle={props.onToggle}
              />
            ) : (
              <JobRow key={line.job.id} job={line.job} place={first + offset} nowNs={nowNs} isNarrow={isNarrow} />
            ),
          )}
        </tbody>
      </table>
      {props.foot}
    </section>
  );
}

function spaces(above: number, below: number, rowPx: number): Record<string, string> {
  return { "--above": `${above * rowPx}px`, "--below": `${Math.max(0, below) * rowPx}px` };
}

/** Keep the first row in sight where it is, unless the person is at the top, where what is new shall be seen. */
function useAnchor(scroller: { current: HTMLDivElement | null }, source: Source, version: number, rowPx: number): void {
  const anchor = useRef<{ id: string; index: number } | null>(null);
  useLayoutEffect(() => {
    const box = scroller.current;
    const kept = anchor.current;
    if (box && kept && box.scrollTop >= rowPx) {
      const index = source.indexOf(kept.id);
      if (index >= 0 && index !== kept.index) box.scrollTop += (index - kept.index) * rowPx;
    }
    const at = box ? Math.floor(box.scrollTop / rowPx) : 0;
    const line = source.lines(at, 1)[0];
    anchor.current = line && "job" in line ? { id: line.job.id, index: at } : null;
  }, [version, source]);
  useLayoutEffect(() => {
    const box = scroller.current;
    const remember = () => {
      const at = box ? Math.floor(box.scrollTop / rowPx) : 0;
      const line = source.lines(at, 1)[0];
      anchor.current = line && "job" in line ? { id: line.job.id, index: at } : null;
    };
    box?.addEventListener("scroll", remember, { passive: true });
    return () => box?.removeEventListener("scroll", remember);
  }, [source, rowPx]);
}

function Head({ shown, sort, descending, onSort }: JobTableProps & { shown: readonly Shown[] }) {
  return (
    <thead>
      <tr aria-rowindex={1}>
        {shown.map(({ name, width, right, wideOnly }) => {
          const column = columnOf(name) ?? COLUMNS[0];
          const order = sort === name ? (descending ? "descending" : "ascending") : undefined;
          return (
            <th
              key={name}
              scope="col"
              class={cellClass(right, wideOnly)}
              style={width ? { width } : {}}
              aria-sort={order}
            >
              {onSort ? (
                <button type="button" class="sort" title={column?.about} onClick={() => onSort(name)}>
                  {column?.title}
                  <span aria-hidden="true">{order ? (descending ? " ↓" : " ↑") : ""}</span>
                </button>
              ) : (
                column?.title
              )}
            </th>
          );
        })}
      </tr>
    </thead>
  );
}

interface JobRowProps {
  job: JobView;
  place: number;
  nowNs: number;
  isNarrow: boolean;
}

const JobRow = memo(
  ({ job, place, nowNs, isNarrow }: JobRowProps) => (
    <tr
      class="opens"
      aria-rowindex={place + 2}
      data-place={place}
      data-job={job.id}
      tabIndex={-1}
      onClick={(event) => {
        const isPlain = !event.ctrlKey && !event.metaKey && !event.shiftKey && !getSelection()?.toString();
        if (isPlain && !(event.target as Element).closest("a")) navigate(`/jobs/${job.id}`);
      }}
      onKeyDown={(event) => {
        if (event.key === "Enter" && event.target === event.currentTarget) navigate(`/jobs/${job.id}`);
      }}
    >
      {isNarrow ? <NarrowCells job={job} nowNs={nowNs} /> : <WideCells job={job} nowNs={nowNs} />}
    </tr>
  ),
  (old, now) =>
    old.job === now.job && old.nowNs === now.nowNs && old.place === now.place && old.isNarrow === now.isNarrow,
);

function WideCells({ job, nowNs }: { job: JobView; nowNs: number }) {
  return (
    <>
      <td>
        <Badge phase={job.phase} held={job.held} />
      </td>
      <td>
        <a href={`/jobs/${job.id}`} tabIndex={-1} class="job-name">
          {job.name}
        </a>
        <span class="job-id">{job.id.slice(0, 8)}</span>
      </td>
      <td>{job.team}</td>
      <td class="wide-only">{job.queue}</td>
      <td class="wide-only">{job.principal}</td>
      <td class="right">{heldGpus(job)}</td>
      <td class={job.nodes.length ? "mono job-place" : "job-reason"} title={job.detail || undefined}>
        {placeOrReason(job, nowNs)}
      </td>
      <td class="right">{duration(timeInPhaseS(job, nowNs))}</td>
      <td class="right wide-only">{job.priority}</td>
      <td class="right wide-only muted">{ago(job.submitted_at, nowNs)}</td>
    </>
  );
}

function NarrowCells({ job, nowNs }: { job: JobView; nowNs: number }) {
  return (
    <>
      <td>
        <a href={`/jobs/${job.id}`} tabIndex={-1} class="job-name">
          {job.name}
        </a>
        <span class="job-line">
          {job.team} · {heldGpus(job)} GPUs · {placeOrReason(job, nowNs) || job.queue}
        </span>
      </td>
      <td class="right">
        <Badge phase={job.phase} held={job.held} />
        <span class="job-line">{duration(timeInPhaseS(job, nowNs))}</span>
      </td>
    </>
  );
}

interface GroupRowProps {
  line: { readonly group: Group; readonly isOpen: boolean };
  place: number;
  columns: number;
  onToggle: ((group: string) => void) | undefined;
}

function GroupRow({ line: { group, isOpen }, place, columns, onToggle }: GroupRowProps) {
  return (
    <tr class="group-row" aria-rowindex={place + 2} data-place={place}>
      <td colSpan={columns}>
        <button type="button" class="group-toggle" aria-expanded={isOpen} onClick={() => onToggle?.(group.name)}>
          <span class="group-caret" aria-hidden="true" />
          <span class="group-name">{group.name || <em>none</em>}</span>
          <span class="group-count">{group.entries.length.toLocaleString("en-GB")}</span>
          <PhaseBar phases={group.phases} total={group.entries.length} />
          <span class="group-phases">{phaseWords(group.phases)}</span>
          <span class="group-gpus">{gpus(group.gpuMilli)} GPUs</span>
        </button>
      </td>
    </tr>
  );
}

function PhaseBar({ phases, total }: { phases: ReadonlyMap<string, number>; total: number }) {
  return (
    <span class="phase-bar" aria-hidden="true">
      {[...phases].map(([phase, jobs]) => (
        <span key={phase} data-phase={phase} style={{ width: `${(100 * jobs) / Math.max(1, total)}%` }} />
      ))}
    </span>
  );
}

function phaseWords(phases: ReadonlyMap<string, number>): string {
  const found = [...phases].filter(([, jobs]) => jobs > 0).sort(([, few], [, many]) => many - few);
  return found.map(([phase, jobs]) => `${jobs.toLocaleString("en-GB")} ${phase}`).join(", ");
}

function cellClass(right = false, wideOnly = false): string {
  return `${right ? "right" : ""}${wideOnly ? " wide-only" : ""}`;
}

/** Arrow keys, Page Up and Down, Home and End go over the rows; Enter opens the one that has the focus. */
function moveFocus(event: KeyboardEvent, box: HTMLElement | null, length: number, rowPx: number): void {
  const focused = (document.activeElement as HTMLElement | null)?.closest<HTMLElement>("tr[data-place]");
  const now = Number(focused?.dataset["place"] ?? -1);
  const page = Math.max(1, Math.floor((box?.clientHeight ?? 0) / rowPx) - 2);
  const steps: Record<string, number> = {
    ArrowDown: now + 1,
    ArrowUp: now - 1,
    PageDown: now + page,
    PageUp: now - page,
    Home: 0,
    End: length - 1,
  };
  const wanted = steps[event.key];
  if (wanted === undefined || !box || !length || (event.target as Element).closest("input, select")) return;
  event.preventDefault();
  const place = Math.min(length - 1, Math.max(0, wanted));
  const top = place * rowPx;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + 2 * rowPx > box.scrollTop + box.clientHeight) box.scrollTop = top + 2 * rowPx - box.clientHeight;
  requestAnimationFrame(() => {
    const row = box.querySelector<HTMLElement>(`tr[data-place="${place}"]`);
    (row?.querySelector<HTMLElement>(".group-toggle") ?? row)?.focus({ preventScroll: true });
  });
}
