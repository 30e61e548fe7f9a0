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
  /** Another one whenever its lines may have changed. */
  source: Source;
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
  /** How much room the table must have for it. */
  readonly from?: "wide" | "broad";
}

const SHOWN: readonly Shown[] = [
  { name: "phase", width: "116px" },
  { name: "name" },
  { name: "team", width: "9%" },
  { name: "queue", width: "9%", from: "broad" },
  { name: "user", width: "8%", from: "broad" },
  { name: "gpus", width: "68px", right: true },
  { name: "node", width: "17%" },
  { name: "time", width: "86px", right: true },
  { name: "priority", width: "74px", right: true, from: "wide" },
  { name: "submitted", width: "104px", right: true, from: "wide" },
];
const SHOWN_NARROW: readonly Shown[] = [{ name: "name" }, { name: "phase", width: "104px", right: true }];

export function JobTable(props: JobTableProps) {
  const { source, nowNs, onEnd } = props;
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
  useAnchor(scroller, source, { top: view.top, rowPx });
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
        {/* biome-ignore lint/a11y/useKeyWithClickEvents: rows are opened by Enter in moveFocus */}
        <tbody onClick={openClicked} style={spaces(first, source.length - first - lines.length, rowPx)}>
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

/**
 * Keep the first row in sight where it is, unless the person is at the top, where what is new shall be seen. top: as the
 * last scrolling said; asking the browser would make it lay out the page in the middle of a frame.
 */
function useAnchor(box: { current: HTMLElement | null }, source: Source, at: { top: number; rowPx: number }): void {
  const anchor = useRef<{ id: string; index: number } | null>(null);
  const { top, rowPx } = at;
  useLayoutEffect(() => {
    const kept = anchor.current;
    let index = Math.floor(top / rowPx);
    if (box.current && kept && index > 0 && kept.index === index) {
      const now = source.indexOf(kept.id);
      if (now >= 0 && now !== index) {
        box.current.scrollTop += (now - index) * rowPx;
        index = now;
      }
    }
    const line = index > 0 ? source.lines(index, 1)[0] : undefined;
    anchor.current = line && "job" in line ? { id: line.job.id, index } : null;
  }, [source, top, rowPx]);
}

function Head({ shown, sort, descending, onSort }: JobTableProps & { shown: readonly Shown[] }) {
  return (
    <thead>
      <tr aria-rowindex={1}>
        {shown.map(({ name, width, right, from }) => {
          const column = columnOf(name) ?? COLUMNS[0];
          const order = sort === name ? (descending ? "descending" : "ascending") : undefined;
          return (
            <th key={name} scope="col" class={cellClass(right, from)} style={width ? { width } : {}} aria-sort={order}>
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

/** A row moves often and changes rarely: where it stands is the row's own, what is in it is drawn apart. */
function JobRow({ job, place, nowNs, isNarrow }: JobRowProps) {
  return (
    <tr class="opens" aria-rowindex={place + 2} data-place={place} data-job={job.id} tabIndex={-1}>
      <Cells job={job} nowNs={nowNs} isNarrow={isNarrow} />
    </tr>
  );
}

const Cells = memo(({ job, nowNs, isNarrow }: Omit<JobRowProps, "place">) =>
  isNarrow ? <NarrowCells job={job} nowNs={nowNs} /> : <WideCells job={job} nowNs={nowNs} />,
);

/** Open the job whose row was clicked, unless a link, a modifier or a selection is meant. */
function openClicked(event: MouseEvent): void {
  const target = event.target as Element;
  const isPlain = !event.ctrlKey && !event.metaKey && !event.shiftKey && !getSelection()?.toString();
  const id = target.closest<HTMLElement>("tr[data-job]")?.dataset["job"];
  if (id && isPlain && !target.closest("a")) navigate(`/jobs/${id}`);
}

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
      <td class="broad-only">{job.queue}</td>
      <td class="broad-only">{job.principal}</td>
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

function cellClass(right = false, from = ""): string {
  return `${right ? "right" : ""}${from ? ` ${from}-only` : ""}`;
}

/** Arrow keys, Page Up and Down, Home and End go over the rows; Enter opens the one that has the focus. */
function moveFocus(event: KeyboardEvent, box: HTMLElement | null, length: number, rowPx: number): void {
  const focused = (document.activeElement as HTMLElement | null)?.closest<HTMLElement>("tr[data-place]");
  if (event.key === "Enter" && event.target === focused && focused?.dataset["job"]) {
    navigate(`/jobs/${focused.dataset["job"]}`);
    return;
  }
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
  const focus = () => {
    const row = box.querySelector<HTMLElement>(`tr[data-place="${place}"]`);
    (row?.querySelector<HTMLElement>(".group-toggle") ?? row)?.focus({ preventScroll: true });
    return row !== null;
  };
  if (!focus()) requestAnimationFrame(focus); // it is drawn with the scrolling
}
