import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { store } from "../../live/store";
import {
  Badge,
  Broken,
  type Column,
  Empty,
  format,
  Page,
  Panel,
  Table,
  useFetched,
  useHotkey,
  useQueryParams,
} from "../../ui";
import type { FactRow } from "../../wire";
import { Details } from "./details";
import { EventFeed } from "./feed";
import { matcher, toneOf } from "./filter";
import { Subject } from "./subject";
import "./events.css";

const PAST = 500;

const COLUMNS: Column<FactRow>[] = [
  {
    key: "time",
    title: "Time",
    width: "128px",
    narrowWidth: "84px",
    cell: (fact) => (
      <time title={format.instantInFull(fact.time)}>
        <Moment at={fact.time} />
      </time>
    ),
  },
  { key: "kind", title: "Kind", width: "132px", cell: (fact) => fact.kind, wideOnly: true },
  {
    key: "name",
    title: "Fact",
    width: "210px",
    narrowWidth: "124px",
    cell: (fact) => <Badge tone={toneOf(fact.name)}>{fact.name}</Badge>,
  },
  { key: "subject", title: "Subject", cell: (fact) => <Subject fact={fact} /> },
  { key: "writer", title: "Writer", width: "110px", cell: (fact) => fact.writer, wideOnly: true },
  { key: "cluster", title: "Cluster", width: "90px", cell: (fact) => fact.cluster || "–", wideOnly: true },
  {
    key: "seq",
    title: "Sequence",
    width: "96px",
    align: "right",
    cell: (fact) => format.count(fact.seq),
    wideOnly: true,
  },
];

/** Milliseconds tell the order; a phone has no room for them. */
function Moment({ at }: { at: number }) {
  const told = format.instantMs(at);
  return (
    <>
      {told.slice(0, 8)}
      <span class="wide-only muted">{told.slice(8)}</span>
    </>
  );
}

/** Every fact as it comes, newest first. */
export default function Events() {
  const [params, setParams] = useQueryParams({ q: "", kind: "", writer: "", fact: "" });
  const feed = useMemo(() => new EventFeed(), []);
  const paused = useSignal(false);
  const scrolled = useSignal(false);
  const past = useFetched<{ facts: FactRow[] }>(`/v1/events?limit=${PAST}`);
  useEffect(
    () =>
      store.subscribe((changes) => {
        feed.came(changes);
        if (changes.reset) {
          past.again(); // a snapshot tells no facts: those that were missed are among the newest
        }
      }),
    [feed],
  );
  useEffect(() => feed.setPast(past.value?.facts ?? []), [feed, past.value]);
  useEffect(() => {
    const { q, kind, writer } = params;
    feed.setMatcher(matcher({ text: q, kind, writer }, (id) => store.jobName(id)));
  }, [feed, params.q, params.kind, params.writer]);
  const held = paused.value || scrolled.value;
  useEffect(() => feed.hold(held), [feed, held]);
  const togglePause = (): void => {
    paused.value = !paused.value;
  };
  useHotkey("p", "Events: pause or resume", togglePause);
  useHotkey("f", "Events: focus the filter", () => document.getElementById("event-filter")?.focus());
  const rows = feed.shown.value;
  const shown = params.fact ? feed.find(params.fact) : undefined;
  return (
    <Page
      fill
      title="Events"
      note={<Counts rows={rows.length} waiting={feed.waiting.value} paused={paused.value} />}
      actions={
        <>
          <input
            id="event-filter"
            type="search"
            placeholder="Filter by text"
            aria-label="Filter: words of any column"
            value={params.q}
            onInput={(event) => setParams({ q: event.currentTarget.value })}
          />
          <Choice
            label="Kind"
            all="Every kind"
            value={params.kind}
            of={(fact) => fact.kind}
            rows={rows}
            onChoose={(kind) => setParams({ kind })}
          />
          <Choice
            label="Writer"
            all="Every writer"
            value={params.writer}
            of={(fact) => fact.writer}
            rows={rows}
            onChoose={(writer) => setParams({ writer })}
          />
          <button type="button" class="button" aria-pressed={paused.value} onClick={togglePause}>
            {paused.value ? "Go on" : "Pause"} <kbd>p</kbd>
          </button>
        </>
      }
    >
      <div class={shown ? "events events-with-details" : "events"}>
        <Panel flush>
          {past.problem && rows.length === 0 ? (
            <Broken problem={past.problem} retry={past.again} />
          ) : (
            <Table
              label="Facts, newest first"
              columns={COLUMNS}
              rows={rows}
              rowKey={(fact) => fact.id}
              selected={params.fact}
              onOpen={(fact) => setParams({ fact: fact.id === params.fact ? "" : fact.id })}
              onScrolled={(top) => {
                scrolled.value = top > 0;
              }}
              empty={
                params.q || params.kind || params.writer ? (
                  <Empty title="No fact matches">
                    None of the newest facts matches the filter. New facts appear as they arrive.
                  </Empty>
                ) : (
                  <Empty title="No facts yet">Submit a job; its facts appear here.</Empty>
                )
              }
            />
          )}
        </Panel>
        {shown && (
          <Details
            fact={shown}
            find={(id) => feed.find(id)}
            onClose={() => setParams({ fact: "" })}
            onShow={(id) => setParams({ fact: id })}
          />
        )}
      </div>
    </Page>
  );
}

function Counts({ rows, waiting, paused }: { rows: number; waiting: number; paused: boolean }) {
  const why = paused ? "paused" : "held while you scroll";
  return (
    <span role="status">
      {format.many(rows, "fact")}
      {(waiting > 0 || paused) && ` · ${why}, ${format.count(waiting)} new`}
    </span>
  );
}

interface ChoiceProps {
  label: string;
  all: string;
  value: string;
  of: (fact: FactRow) => string;
  rows: FactRow[];
  onChoose: (value: string) => void;
}

/** One of the values that occur; those that were seen stay on the list. */
function Choice({ label, all, value, of, rows, onChoose }: ChoiceProps) {
  const seen = useMemo(() => new Set<string>(), []);
  for (const row of rows.slice(0, PAST)) {
    seen.add(of(row));
  }
  if (value) {
    seen.add(value);
  }
  return (
    <select aria-label={label} value={value} onChange={(event) => onChoose(event.currentTarget.value)}>
      <option value="">{all}</option>
      {[...seen].sort().map((one) => (
        <option key={one} value={one}>
          {one}
        </option>
      ))}
    </select>
  );
}
