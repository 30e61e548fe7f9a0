/** What the table is narrowed by: phases with their counts, a search, and one filter for any column. */

import { useState } from "preact/hooks";
import type { JobView } from "../../wire";
import { COLUMNS, type Column, type ColumnName, columnOf } from "./columns";
import { Menu } from "./menu";
import { complaint, EMPTY_QUERY, fitting, type JobQuery, NONE, valuesOf, withFilter, withValueToggled } from "./query";
import { counted } from "./words";

const VALUES_SHOWN_MAX = 200;

interface FiltersProps {
  query: JobQuery;
  onQuery: (query: JobQuery) => void;
  /** Phases that can be chosen, with how many jobs each has by all other filters; null where that is not known. */
  phases: readonly (readonly [phase: string, jobs: number | null])[];
  /** Rows that a menu of values is made from, read when one opens. */
  jobs: () => Iterable<JobView>;
}

export function Filters({ query, onQuery, phases, jobs }: FiltersProps) {
  const chosen = [...query.filters.keys()].filter((name) => name !== "phase");
  return (
    <div class="filters">
      <PhaseChoice query={query} onQuery={onQuery} phases={phases} />
      <input
        type="search"
        class="filters-search"
        placeholder="Search names, users, nodes …"
        aria-label="Search jobs"
        value={query.text}
        onInput={(event) => onQuery({ ...query, text: event.currentTarget.value })}
      />
      <Menu title="Filter" label="Add a filter">
        {(close) => <AddFilter query={query} onQuery={onQuery} jobs={jobs} close={close} />}
      </Menu>
      {query.show === "live" && (
        <label class="filters-group">
          <span>Group by</span>
          <select
            value={query.group}
            onChange={(event) => onQuery({ ...query, group: event.currentTarget.value as ColumnName | "", open: [] })}
          >
            <option value="">nothing</option>
            {COLUMNS.filter((column) => column.grouped).map((column) => (
              <option key={column.name} value={column.name}>
                {column.title.toLowerCase()}
              </option>
            ))}
          </select>
        </label>
      )}
      {chosen.map((name) => (
        <FilterTag key={name} name={name} query={query} onQuery={onQuery} jobs={jobs} />
      ))}
      {(chosen.length > 0 || query.filters.has("phase") || query.text) && (
        <button
          type="button"
          class="button button-quiet"
          onClick={() => onQuery({ ...query, filters: EMPTY_QUERY.filters, text: "" })}
        >
          Clear all
        </button>
      )}
    </div>
  );
}

function PhaseChoice({ query, onQuery, phases }: Pick<FiltersProps, "query" | "onQuery" | "phases">) {
  const chosen = valuesOf(query, "phase");
  return (
    <fieldset class="phase-choice">
      <legend class="sr-only">States</legend>
      {phases.map(([phase, jobs]) => (
        <button
          key={phase}
          type="button"
          class="phase-chip"
          data-phase={phase}
          aria-pressed={chosen.includes(phase)}
          onClick={() => onQuery(withValueToggled(query, "phase", phase))}
        >
          <i aria-hidden="true" />
          {phase}
          {jobs !== null && <b>{jobs.toLocaleString("en-GB")}</b>}
        </button>
      ))}
    </fieldset>
  );
}

type PartProps = Pick<FiltersProps, "query" | "onQuery" | "jobs">;

function FilterTag({ name, query, onQuery, jobs }: PartProps & { name: ColumnName }) {
  const column = columnOf(name);
  if (!column) return null;
  const wrong = complaint(column, query.filters.get(name) ?? "");
  return (
    <span class="filter-tag" data-wrong={wrong ? "" : undefined} title={wrong}>
      <Menu
        label={`Filter by ${column.title}`}
        title={
          <>
            <span class="muted">{column.title}</span> {query.filters.get(name)}
          </>
        }
      >
        {(close) => <Values column={column} query={query} onQuery={onQuery} jobs={jobs} close={close} />}
      </Menu>
      <button
        type="button"
        class="filter-tag-drop"
        aria-label={`Remove the filter by ${column.title}`}
        onClick={() => onQuery(withFilter(query, name, ""))}
      >
        ✕
      </button>
      {wrong && <span class="filter-wrong">{wrong}</span>}
    </span>
  );
}

function AddFilter({ close, ...rest }: PartProps & { close: () => void }) {
  const [name, setName] = useState<ColumnName | "">("");
  const column = columnOf(name);
  if (column) return <Values column={column} {...rest} close={close} />;
  return (
    <div class="menu-list">
      <p class="menu-title">Filter by</p>
      {COLUMNS.map((one) => (
        <button key={one.name} type="button" class="menu-row" title={one.about} onClick={() => setName(one.name)}>
          {one.title}
        </button>
      ))}
    </div>
  );
}

function Values({ column, query, onQuery, jobs, close }: PartProps & { column: Column; close: () => void }) {
  return column.sort === "number" || column.sort === "age" ? (
    <Bound column={column} query={query} onQuery={onQuery} close={close} />
  ) : (
    <Words column={column} query={query} onQuery={onQuery} jobs={jobs} />
  );
}

function Bound({ column, query, onQuery, close }: Omit<PartProps, "jobs"> & { column: Column; close: () => void }) {
  const [text, setText] = useState(query.filters.get(column.name) ?? "");
  const wrong = complaint(column, text);
  const example = column.sort === "age" ? ">30m or >1h,<1d" : ">=8 or >2,<64";
  return (
    <form
      class="menu-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (!wrong) {
          onQuery(withFilter(query, column.name, text));
          close();
        }
      }}
    >
      <label>
        <span class="menu-title">{column.title}</span>
        <input
          data-first
          placeholder={example}
          value={text}
          aria-invalid={wrong ? true : undefined}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <p class={wrong ? "filter-wrong" : "muted"}>{wrong || `${column.about}. Write ${example}.`}</p>
      <button type="submit" class="button button-main" disabled={wrong !== ""}>
        Filter
      </button>
    </form>
  );
}

function Words({ column, query, onQuery, jobs }: PartProps & { column: Column }) {
  const [typed, setTyped] = useState("");
  const [values] = useState(() => valuesIn(column, query, jobs()));
  const chosen = valuesOf(query, column.name);
  const shown = values.filter(([value]) => (value || NONE).toLowerCase().includes(typed.toLowerCase()));
  return (
    <div class="menu-list">
      <label>
        <span class="menu-title">{column.title}</span>
        <input
          data-first
          placeholder={"Search, or enter prefix* or !value"}
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && typed.trim()) onQuery(withValueToggled(query, column.name, typed.trim()));
          }}
        />
      </label>
      <div class="menu-values">
        {shown.slice(0, VALUES_SHOWN_MAX).map(([value, count]) => (
          <label key={value} class="menu-row">
            <input
              type="checkbox"
              checked={chosen.includes(value || NONE)}
              onChange={() => onQuery(withValueToggled(query, column.name, value))}
            />
            <span class="menu-value">{value || <em>{NONE}</em>}</span>
            <span class="muted">{count.toLocaleString("en-GB")}</span>
          </label>
        ))}
      </div>
      {shown.length === 0 && (
        <p class="muted menu-note">No shown row has this value. Press Enter to filter by it anyway.</p>
      )}
      {shown.length > VALUES_SHOWN_MAX && (
        <p class="muted menu-note">{counted(shown.length - VALUES_SHOWN_MAX, "more value")}; write a part of it.</p>
      )}
    </div>
  );
}

/** What there is to choose from: values of rows that pass every other filter, the most frequent first. */
function valuesIn(column: Column, query: JobQuery, jobs: Iterable<JobView>): readonly (readonly [string, number])[] {
  const fits = fitting(query, new Set([column.name]));
  const counts = new Map<string, number>();
  for (const job of jobs) {
    if (!fits(job, 0)) continue;
    const value = column.value(job, 0);
    const values: readonly string[] = typeof value === "object" ? (value.length ? value : [""]) : [String(value)];
    for (const one of values) counts.set(one, (counts.get(one) ?? 0) + 1);
  }
  return [...counts].sort(([one, few], [two, many]) => many - few || one.localeCompare(two, "en", { numeric: true }));
}
