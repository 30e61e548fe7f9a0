/** What the page of one job is fed by: its row, its facts, the scheduler's word, readings, output. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { type ApiProblem, api, asProblem } from "../../api";
import { followOutput } from "../../live/output";
import { store } from "../../live/store";
import type { FactView, JobReadings, JobView, OutputPage, WhyAnswer } from "../../wire";
import { TERMINAL } from "../jobs/words";
import { NO_OUTPUT, type Tail, withLines } from "./output";
import { devicesOf, fromKept, NO_READINGS, type Readings, withLive } from "./readings";
import { isOfJob } from "./trace";

const WHY_EVERY_MS = 10_000;
const SETTLE_MS = 400; // changes that come within this time are asked about together
const TRAIL_FACTS_MAX = 5_000;
const READINGS_SINCE_S = 900;
const OUTPUT_LINES = 500;
const LAST_LINES_MS = 2_000;
const NS_PER_MS = 1e6;

/** The job's row as it changes; fetched once where it is not among the live ones. */
export function useJob(id: string): { job: JobView | undefined; problem: ApiProblem | undefined; again: () => void } {
  const [job, setJob] = useState(() => store.jobs.get(id));
  const [problem, setProblem] = useState<ApiProblem>();
  const newest = useRef(job);
  const take = (row: JobView | undefined) => {
    if (!row || row === newest.current) return;
    newest.current = row;
    setJob(row);
    setProblem(undefined);
  };
  const ask = useCallback(() => {
    api.get<JobView>(`/v1/jobs/${id}`).then(take, (error: unknown) => {
      if (!newest.current) setProblem(asProblem(error));
    });
  }, [id]);
  useEffect(() => {
    const end = store.subscribe((changes) => {
      if (changes.reset || changes.jobs.has(id)) take(store.jobs.get(id));
    });
    if (!store.jobs.has(id)) ask();
    return end;
  }, [id]);
  return { job, problem, again: ask };
}

/** The scheduler's word on a job that has not ended; asked again when the job changed and now and then. */
export function useWhy(job: JobView | undefined): { why: WhyAnswer | null; problem: ApiProblem | undefined } {
  const [state, setState] = useState<{ why: WhyAnswer | null; problem?: ApiProblem }>({ why: null });
  const isLive = job !== undefined && !TERMINAL.has(job.phase) && job.phase !== "running";
  const key = isLive ? `${job.id} ${job.seq} ${job.phase} ${job.held}` : "";
  useEffect(() => {
    if (!job || !isLive) {
      setState({ why: null });
      return undefined;
    }
    const ending = new AbortController();
    const ask = () => {
      if (document.hidden) return;
      api.get<WhyAnswer>(`/v1/jobs/${job.id}/why`, { signal: ending.signal }).then(
        (why) => setState({ why }),
        (error: unknown) => {
          if (!ending.signal.aborted) setState((old) => ({ ...old, problem: asProblem(error) }));
        },
      );
    };
    const soon = setTimeout(ask, state.why === null ? 0 : SETTLE_MS);
    const timer = setInterval(ask, WHY_EVERY_MS);
    return () => {
      ending.abort();
      clearTimeout(soon);
      clearInterval(timer);
    };
  }, [key]);
  return { why: state.why, problem: state.problem };
}

/** All facts of the job and of what was made for it: those that are kept, and those that come. */
export function useTrail({ id, trace, cluster }: JobView) {
  const [facts, setFacts] = useState<readonly FactView[]>();
  const [problem, setProblem] = useState<ApiProblem>();
  const known = useRef(new Map<string, FactView>());
  const add = (coming: readonly FactView[]): boolean => {
    let isNew = false;
    for (const fact of coming) {
      const key = `${fact.stream} ${fact.id}`;
      const old = known.current.get(key);
      if (old && (old.body || !fact.body)) continue;
      if (!old && known.current.size >= TRAIL_FACTS_MAX) continue;
      known.current.set(key, fact);
      isNew = true;
    }
    if (isNew || known.current.size === 0) setFacts([...known.current.values()]);
    return isNew;
  };
  const ask = useCallback(() => {
    api.get<{ facts: FactView[] }>(`/v1/jobs/${id}/events`).then(
      (answer) => {
        setProblem(undefined);
        add(answer.facts);
      },
      (error: unknown) => setProblem(asProblem(error)),
    );
  }, [id]);
  useEffect(() => {
    known.current = new Map();
    ask();
    let soon: ReturnType<typeof setTimeout> | undefined;
    const end = store.subscribe((changes) => {
      const ours = changes.facts.filter((fact) => isOfJob(fact, { id, trace, cluster }));
      if (!ours.length || !add(ours)) return;
      if (ours.every((fact) => fact.body)) return;
      clearTimeout(soon); // what the public sees has no bodies: the API gives them
      soon = setTimeout(ask, SETTLE_MS);
    });
    return () => {
      end();
      clearTimeout(soon);
    };
  }, [id, trace, cluster]);
  return { facts, problem, again: ask };
}

/** The job's GPUs over time: what is kept, then what comes while it runs. */
export function useReadings(job: JobView): { readings: Readings; problem: ApiProblem | undefined; isKnown: boolean } {
  const [readings, setReadings] = useState(NO_READINGS);
  const [state, setState] = useState<{ isKnown: boolean; problem?: ApiProblem }>({ isKnown: false });
  const newest = useRef(job);
  newest.current = job;
  useEffect(() => {
    const ending = new AbortController();
    api.get<JobReadings>(`/v1/jobs/${job.id}/telemetry?since_s=${READINGS_SINCE_S}`, { signal: ending.signal }).then(
      (kept) => {
        setReadings(fromKept(kept));
        setState({ isKnown: true });
      },
      (error: unknown) => {
        if (!ending.signal.aborted) setState({ isKnown: true, problem: asProblem(error) });
      },
    );
    const end = store.subscribe((changes) => {
      const now = newest.current;
      if (now.phase !== "running" || !now.nodes.some((node) => changes.telemetry.has(node))) return;
      const atNs = Date.now() * NS_PER_MS;
      setReadings((old) => withLive(old, devicesOf(now), store.telemetry, atNs));
    });
    return () => {
      ending.abort();
      end();
    };
  }, [job.id, job.attempt]);
  return { readings, problem: state.problem, isKnown: state.isKnown };
}

/** What the job printed last, and what it prints. isAllowed: nothing is asked before whoever looks may read it. */
export function useOutput(job: JobView, isAllowed: boolean) {
  const isOver = TERMINAL.has(job.phase);
  const [tail, setTail] = useState<Tail>(NO_OUTPUT);
  const [state, setState] = useState<{ isKnown: boolean; problem?: ApiProblem }>({ isKnown: false });
  const ask = useCallback(() => {
    api.get<OutputPage>(`/v1/jobs/${job.id}/output?lines=${OUTPUT_LINES}`).then(
      (page) => {
        setTail((old) => withLines(old, page.lines));
        setState({ isKnown: true });
      },
      (error: unknown) => setState({ isKnown: true, problem: asProblem(error) }),
    );
  }, [job.id]);
  useEffect(() => {
    if (!isAllowed || !job.cluster || isOver) return undefined;
    return followOutput(job.cluster, job.team, job.id, (lines) => setTail((old) => withLines(old, lines)));
  }, [job.id, job.cluster, isOver, isAllowed]);
  useEffect(() => {
    // after listening: what is printed meanwhile comes twice, and is taken once
    if (isAllowed) ask();
  }, [job.id, isAllowed]);
  useEffect(() => {
    if (!isAllowed || !isOver) return undefined;
    // the last lines, often the error, may be stored a moment after the end was told
    const timer = setTimeout(ask, LAST_LINES_MS);
    return () => clearTimeout(timer);
  }, [job.id, isOver, isAllowed]);
  return { tail, isKnown: state.isKnown, problem: state.problem, again: ask };
}
