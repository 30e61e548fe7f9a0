import { useMemo, useState } from "preact/hooks";
import { store } from "../../live/store";
import { query as address, navigate } from "../../route";
import { Page } from "../../ui";
import { ENDED_PHASES } from "./ended";
import { EndedJobsTable } from "./ended_jobs";
import { Filters } from "./filters";
import { LiveJobs } from "./live_jobs";
import { type JobQuery, parseQuery, type Show, writeQuery } from "./query";
import "./style.css";
import { ViewsMenu } from "./views_menu";
import { counted } from "./words";

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
  const [counts, setCounts] = useState<Counts>({ shown: 0, known: 0, phases: new Map() });
  const ask = (wanted: JobQuery) => navigate(addressOf(wanted), { replace: true });
  const show = (what: Show) => {
    const filters = new Map(query.filters);
    filters.delete("phase"); // the phases of the one are none of the other
    navigate(addressOf({ ...query, show: what, filters }));
  };
  const isLive = query.show === "live";
  const phases = isLive
    ? LIVE_PHASES.map((phase) => [phase, counts.phases.get(phase) ?? 0] as const)
    : ENDED_PHASES.map((phase) => [phase, null] as const);
  return (
    <Page
      title="Jobs"
      fill
      note={noteOf(query.show, counts)}
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
      <Filters query={query} onQuery={ask} phases={phases} jobs={() => store.jobs.values()} />
      <div class="panel jobs-panel">
        {isLive ? (
          <LiveJobs
            query={query}
            onQuery={ask}
            onCounts={(shown, known, byPhase) => setCounts({ shown, known, phases: new Map(byPhase) })}
          />
        ) : (
          <EndedJobsTable query={query} onCounts={(shown, known) => setCounts({ shown, known, phases: new Map() })} />
        )}
      </div>
    </Page>
  );
}

function addressOf(query: JobQuery): string {
  const text = writeQuery(query).toString();
  return text ? `/jobs?${text}` : "/jobs";
}

function noteOf(show: Show, { shown, known }: Counts): string {
  const of = shown === known ? "" : ` of ${known.toLocaleString("en-GB")}`;
  return show === "live" ? `${shown.toLocaleString("en-GB")}${of} live` : `${counted(shown, "job")}${of} read so far`;
}
