/**
 * A table of any length: only rows that can be seen are in the document, which tells its real length by ARIA.
 *
 * Arrow keys, Page Up/Down, Home and End move over the rows, Enter opens the one that has the focus.
 */

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Column<Row> {
  key: string;
  title: string;
  cell: (row: Row) => ComponentChildren;
  /** Width as in CSS; without one the column takes what is left. */
  width?: string;
  /** The same where the screen is narrow. */
  narrowWidth?: string;
  align?: "left" | "right";
  /** Can be sorted by: `onSort` is called with its key. */
  sortable?: boolean;
  /** Left out where the screen is narrow. */
  wideOnly?: boolean;
}

export interface Sorting {
  key: string;
  descending: boolean;
}

interface TableProps<Row> {
  /** Names the table. */
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string;
  rowClass?: (row: Row) => string;
  onOpen?: (row: Row) => void;
  /** Key of the row that is shown elsewhere in detail. */
  selected?: string | undefined;
  sorting?: Sorting;
  onSort?: (key: string) => void;
  /** How far the rows are scrolled, in pixels. */
  onScrolled?: (top: number) => void;
  /** Said instead of rows when there are none. */
  empty?: ComponentChildren;
}

export const ROW_PX = 32;
const HEAD_PX = 32;
const SPARE_ROWS = 8;

export function Table<Row>(props: TableProps<Row>) {
  const { rows } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  useLayoutEffect(() => {
    const box = scroller.current;
    if (!box) {
      return;
    }
    const measure = (): void => setView({ top: box.scrollTop, height: box.clientHeight });
    measure();
    const watcher = new ResizeObserver(measure);
    watcher.observe(box);
    return () => watcher.disconnect();
  }, []);
  const first = Math.max(0, Math.floor(view.top / ROW_PX) - SPARE_ROWS);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / ROW_PX) + SPARE_ROWS);
  return (
    <section
      class="table-scroll"
      ref={scroller}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
      tabIndex={0}
      aria-label={props.label}
      onScroll={(event) => {
        const { scrollTop, clientHeight } = event.currentTarget;
        props.onScrolled?.(scrollTop);
        if (Math.abs(scrollTop - view.top) >= ROW_PX || clientHeight !== view.height) {
          setView({ top: scrollTop, height: clientHeight });
        }
      }}
      onKeyDown={(event) => moveFocus(event, scroller.current, rows.length)}
    >
      <table class="table" aria-label={props.label} aria-rowcount={rows.length + 1}>
        <Head {...props} />
        <tbody style={outOfSight(first, rows.length - last)}>
          {rows.slice(first, last).map((row, offset) => (
            <BodyRow key={props.rowKey(row)} table={props} row={row} place={first + offset} />
          ))}
        </tbody>
      </table>
      {rows.length === 0 && <p class="table-empty">{props.empty ?? "Nothing to show."}</p>}
    </section>
  );
}

/** Rows above and below that are not in the document, as space before and after those that are. */
function outOfSight(above: number, below: number): Record<string, string> {
  return { "--above": `${above * ROW_PX}px`, "--below": `${below * ROW_PX}px` };
}

function Head<Row>({ columns, sorting, onSort }: TableProps<Row>) {
  return (
    <thead>
      <tr aria-rowindex={1}>
        {columns.map((column) => {
          const sorted = sorting?.key === column.key;
          const direction = sorting?.descending ? "descending" : "ascending";
          return (
            <th
              key={column.key}
              scope="col"
              class={cellClass(column)}
              style={widths(column)}
              aria-sort={sorted ? direction : undefined}
            >
              {column.sortable && onSort ? (
                <button type="button" class="sort" onClick={() => onSort(column.key)}>
                  {column.title}
                  <span aria-hidden="true">{sorted ? (sorting?.descending ? " ↓" : " ↑") : ""}</span>
                </button>
              ) : (
                column.title
              )}
            </th>
          );
        })}
      </tr>
    </thead>
  );
}

function BodyRow<Row>({ table, row, place }: { table: TableProps<Row>; row: Row; place: number }) {
  const { columns, onOpen, rowKey, rowClass, selected } = table;
  const isSelected = selected !== undefined && rowKey(row) === selected;
  return (
    <tr
      aria-rowindex={place + 2}
      data-place={place}
      tabIndex={onOpen ? (place === 0 || isSelected ? 0 : -1) : undefined}
      class={`${rowClass?.(row) ?? ""}${isSelected ? " selected" : ""}${onOpen ? " opens" : ""}`}
      onClick={(event) => {
        if (onOpen && !(event.target as Element).closest("a, button, input, select")) {
          onOpen(row);
        }
      }}
      onKeyDown={(event) => {
        if (onOpen && event.key === "Enter" && event.target === event.currentTarget) {
          onOpen(row);
        }
      }}
    >
      {columns.map((column) => (
        <td key={column.key} class={cellClass(column)}>
          {column.cell(row)}
        </td>
      ))}
    </tr>
  );
}

function widths<Row>({ width, narrowWidth }: Column<Row>): Record<string, string> {
  return width ? { "--width": width, "--narrow": narrowWidth ?? width } : {};
}

function cellClass<Row>({ align, wideOnly }: Column<Row>): string {
  return `${align === "right" ? "right" : ""}${wideOnly ? " wide-only" : ""}`;
}

function moveFocus(event: KeyboardEvent, scroller: HTMLElement | null, length: number): void {
  const now = Number((document.activeElement as HTMLElement | null)?.dataset["place"] ?? -1);
  const page = Math.max(1, Math.floor((scroller?.clientHeight ?? 0) / ROW_PX) - 2);
  const steps: Record<string, number> = {
    ArrowDown: now + 1,
    ArrowUp: now - 1,
    PageDown: now + page,
    PageUp: now - page,
    Home: 0,
    End: length - 1,
  };
  const wanted = steps[event.key];
  if (wanted === undefined || !scroller || length === 0 || (event.target as Element).closest("input, select")) {
    return;
  }
  const place = Math.min(length - 1, Math.max(0, wanted));
  if (!scroller.querySelector("tr[data-place][tabindex]")) {
    return; // rows that cannot be opened are not focused: the browser scrolls
  }
  event.preventDefault();
  scrollTo(scroller, place);
  requestAnimationFrame(() =>
    scroller.querySelector<HTMLElement>(`tr[data-place="${place}"]`)?.focus({ preventScroll: true }),
  );
}

function scrollTo(scroller: HTMLElement, place: number): void {
  const top = place * ROW_PX;
  if (top < scroller.scrollTop) {
    scroller.scrollTop = top;
  } else if (top + ROW_PX + HEAD_PX > scroller.scrollTop + scroller.clientHeight) {
    scroller.scrollTop = top + ROW_PX + HEAD_PX - scroller.clientHeight;
  }
}
