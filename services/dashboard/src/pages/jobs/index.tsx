import { type Signal, useSignal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import { store } from "../../live/store";
import { query as address, navigate } from "../../route";
import { Page } from "../../ui";
import type { JobView } from "../../wire";
import { ENDED_PHASES } from "./ended";
import { EndedJobsTable } from "./ended_jobs";
import { Filters } from "./filters";
import { LiveJobs } from "./live_jobs";
import { type JobQuery, parseQuery, type Show, writeQuery } from "./query";
import "./style.css";
import { ViewsMenu } from "./views_menu";
import { counted, TERMINAL } from "./words";

const LIVE_PHASES = ["submitted", "queued", "placed", "running", "stopping"] as const;

interface Counts {
  readonly shown: number;
  readonly known: number;
  readonly phases: ReadonlyMap<string, number>;
}

/** All jobs: the live ones as they change, and those that have ended page by page. What is asked stands in the address. */
export default function Jobs() {
  const search = address.value.toString();
  const query = useMemo(() => parseQuery(new URLSearchParams(search)), [search]);
  const counts = useSignal<Counts>({ shown: 0, known: 0, phases: new Map() });
  const isLive = query.show === "live";
  const ended = useRef<readonly JobView[]>([]);
  const jobs = () => (isLive ? [...store.jobs.values()].filter((job) => !TERMINAL.has(job.phase)) : ended.current);
  const ask = (wanted: JobQuery) => navigate(addressOf(wanted), { replace: true });
  const show = (what: Show) => {
    const filters = new Map(query.filters);
    filters.delete("phase"); // the phases of the one are none of the other
    navigate(addressOf({ ...query, show: what, filters }));
  };
  return (
    <Page
      title="Jobs"
      fill
      note={<Note show={query.show} counts={counts} />}
      actions={
        <>
          <div class="button-group">
            {(["live", "ended"] as const).map((what) => (
              <button
                key={what}
                type="button"
                class="button"
                aria-pressed={query.show === what}
                onClick={() => show(what)}
              >
                {what === "live" ? "Live" : "Ended"}
              </button>
            ))}
          </div>
          <ViewsMenu search={writeQuery(query).toString()} />
        </>
      }
    >
      <CountedFilters query={query} onQuery={ask} counts={counts} jobs={jobs} />
      <div class="panel jobs-panel">
        {isLive ? (
          <LiveJobs
            query={query}
            onQuery={ask}
            onCounts={(shown, known, byPhase) => {
              counts.value = { shown, known, phases: new Map(byPhase) };
            }}
          />
        ) : (
          <EndedJobsTable
            query={query}
            onRead={(shown, read) => {
              ended.current = read;
              counts.value = { shown, known: read.length, phases: new Map() };
            }}
          />
        )}
      </div>
    </Page>
  );
}

function addressOf(query: JobQuery): string {
  const text = writeQuery(query).toString();
  return text ? `/jobs?${text}` : "/jobs";
}

/** Numbers change with every frame: who shows them is drawn alone, not the page around them. */
interface CountsProps {
  counts: Signal<Counts>;
}

function Note({ show, counts }: CountsProps & { show: Show }) {
  const { shown, known } = counts.value;
  const of = shown === known ? "" : ` of ${known.toLocaleString("en-GB")}`;
  return (
    <>{show === "live" ? `${shown.toLocaleString("en-GB")}${of} live` : `${counted(shown, "job")}${of} read so far`}</>
  );
}

interface CountedFiltersProps extends CountsProps {
  query: JobQuery;
  onQuery: (query: JobQuery) => void;
  jobs: () => readonly JobView[];
}

function CountedFilters({ query, onQuery, counts, jobs }: CountedFiltersProps) {
  const { phases } = counts.value;
  const shown =
    query.show === "live"
      ? LIVE_PHASES.map((phase) => [phase, phases.get(phase) ?? 0] as const)
      : ENDED_PHASES.map((phase) => [phase, null] as const);
  return <Filters query={query} onQuery={onQuery} phases={shown} jobs={jobs} />;
}
