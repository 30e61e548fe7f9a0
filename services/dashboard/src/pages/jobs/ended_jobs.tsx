import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type ApiProblem, api, asProblem } from "../../api";
import { store } from "../../live/store";
import { Broken, Empty, Waiting } from "../../ui";
import type { JobView } from "../../wire";
import { useNowNs } from "./clock";
import {
  ENDED_PHASES,
  type EndedJobs,
  type EndedPhase,
  isComplete,
  type JobsPage,
  noneEnded,
  wanted,
  withPages,
} from "./ended";
import { fitting, type JobQuery, valuesOf } from "./query";
import { JobTable, type Source } from "./table";
import { counted, TERMINAL } from "./words";

const PAGE = 200;
const LOOKED_THROUGH_MAX = 2_000; // jobs that were read without finding enough before the person is asked

/** Jobs that have ended, read page by page as they are scrolled to. */
export function EndedJobsTable({
  query,
  onRead,
}: {
  query: JobQuery;
  onRead: (shown: number, read: readonly JobView[]) => void;
}) {
  const nowNs = useNowNs();
  const key = [...phasesOf(query), ...narrowing(query)].join("&");
  const { ended, problem, isAsking, more, again } = useEnded(query, key);
  const fits = useMemo(() => fitting(query), [query]);
  const jobs = useMemo(() => ended.jobs.filter((job) => fits(job, nowNs)), [ended, fits]);
  const since = useEndedSince(key);
  const asked = useRef(0);
  useEffect(() => onRead(jobs.length, ended.jobs), [jobs.length, ended.jobs]);
  useEffect(() => {
    asked.current = 0;
  }, [key, query]);
  const source = useMemo(() => sourceOf(jobs), [jobs]);
  const isDone = isComplete(ended);
  const lookFurther = () => {
    if (isDone || isAsking || problem) return;
    if (ended.jobs.length - asked.current > LOOKED_THROUGH_MAX) return;
    more();
  };
  useEffect(() => {
    if (jobs.length < PAGE / 4) lookFurther();
  }, [ended, isAsking]);
  if (problem && !ended.jobs.length) return <Broken problem={problem} retry={again} />;
  if (!ended.jobs.length && !isDone) return <Waiting what="Reading jobs that have ended" />;
  if (!ended.jobs.length)
    return (
      <Empty title="No job has ended yet">
        Jobs appear here when they succeed, fail, exceed their run time or are canceled.
      </Empty>
    );
  return (
    <JobTable
      label="Jobs that have ended"
      source={source}
      nowNs={nowNs}
      sort="submitted"
      descending={false}
      onEnd={lookFurther}
      foot={
        <div class="jobs-foot" role="status">
          {since > 0 && (
            <button type="button" class="button" onClick={again}>
              {counted(since, "more job")} ended since; read anew
            </button>
          )}
          {problem ? (
            <Broken problem={problem} retry={more} />
          ) : isDone ? (
            <span class="muted">{jobs.length ? "No more jobs." : "No job matches; relax or clear the filters."}</span>
          ) : isAsking ? (
            <span class="muted">Reading on …</span>
          ) : (
            <button
              type="button"
              class="button"
              onClick={() => {
                asked.current = ended.jobs.length;
                more();
              }}
            >
              {counted(ended.jobs.length, "job")} looked through; look further
            </button>
          )}
        </div>
      }
    />
  );
}

function sourceOf(jobs: readonly JobView[]): Source {
  const places = new Map(jobs.map((job, index) => [job.id, index]));
  return {
    length: jobs.length,
    lines: (start, count) => jobs.slice(Math.max(0, start), Math.max(0, start) + count).map((job) => ({ job })),
    indexOf: (id) => places.get(id) ?? -1,
  };
}

function phasesOf(query: JobQuery): readonly EndedPhase[] {
  const chosen = valuesOf(query, "phase");
  const found = ENDED_PHASES.filter((phase) => chosen.includes(phase));
  return found.length ? found : ENDED_PHASES;
}

/** What the API can narrow by itself: one team and one queue, written exactly. */
function narrowing(query: JobQuery): readonly string[] {
  return (["team", "queue"] as const).flatMap((name) => {
    const [value, ...others] = valuesOf(query, name);
    const isExact = value && !others.length && !/[*!]/.test(value) && value !== "none";
    return isExact ? [`${name}=${encodeURIComponent(value)}`] : [];
  });
}

/** The lists as far as they were read; one reading at a time. key: begins anew when it changes. */
function useEnded(query: JobQuery, key: string) {
  const [state, setState] = useState<{ ended: EndedJobs; problem?: ApiProblem; isAsking: boolean }>(() => ({
    ended: noneEnded(phasesOf(query)),
    isAsking: true,
  }));
  const [round, setRound] = useState(0);
  const reading = useRef<{ ended: EndedJobs; isAsking: boolean; ending: AbortController }>(undefined);
  const more = async () => {
    const now = reading.current;
    if (!now || now.isAsking) return;
    const { signal } = now.ending;
    const tell = (problem?: ApiProblem) => {
      now.isAsking = false;
      if (!signal.aborted) setState({ ended: now.ended, isAsking: false, ...(problem ? { problem } : {}) });
    };
    now.isAsking = true;
    setState((old) => ({ ended: now.ended, isAsking: true, ...(old.problem ? { problem: old.problem } : {}) }));
    try {
      const asked = wanted(now.ended).map(async ({ phase, cursor }) => {
        const next = cursor ? [`cursor=${cursor}`] : [];
        const search = [`phase=${phase}`, `limit=${PAGE}`, ...narrowing(query), ...next];
        return [phase, await api.get<JobsPage>(`/v1/jobs?${search.join("&")}`, { signal })] as const;
      });
      now.ended = withPages(now.ended, new Map(await Promise.all(asked)));
      tell();
    } catch (error) {
      tell(asProblem(error));
    }
  };
  useEffect(() => {
    const mine = { ended: noneEnded(phasesOf(query)), isAsking: false, ending: new AbortController() };
    reading.current = mine;
    void more();
    return () => mine.ending.abort();
  }, [key, round]);
  return { ...state, problem: state.problem, more: () => void more(), again: () => setRound((old) => old + 1) };
}

/** How many jobs ended while this was shown. */
function useEndedSince(key: string): number {
  const [count, setCount] = useState(0);
  const seen = useRef(new Set<string>());
  useEffect(() => {
    seen.current = new Set([...store.jobs.values()].filter((job) => TERMINAL.has(job.phase)).map((job) => job.id));
    setCount(0);
    let fresh = 0;
    return store.subscribe((changes) => {
      for (const id of changes.jobs) {
        const job = store.jobs.get(id);
        if (!job || !TERMINAL.has(job.phase) || seen.current.has(id)) continue;
        seen.current.add(id);
        fresh += 1;
      }
      for (const id of changes.goneJobs) seen.current.delete(id); // no longer told of: so the set stays as small as the store
      setCount(fresh);
    });
  }, [key]);
  return count;
}
