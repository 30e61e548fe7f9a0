import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { store } from "../../live/store";
import { Badge, Empty, Panel } from "../../ui";
import type { JobView, WhyAnswer } from "../../wire";
import { reasonWords } from "../job/headline";
import { useNowNs } from "../jobs/clock";
import { clock, counted, distance, gpus, long, NS_PER_S } from "../jobs/words";
import type { QueueNode } from "./tree";
import { subtreeOf } from "./tree";
import { type Waiting, waitingIn } from "./waiting";
import { useWhys } from "./whys";

const JOBS_SHOWN = 10;
const EVERY_MS = 1_000; // all jobs are looked through for it

/** Who waits in the chosen queue and below, or anywhere: why, in which place, and when they are expected to start. */
export function WaitingPanel({ tree, chosen }: { tree: readonly QueueNode[]; chosen: string }) {
  const nowNs = useNowNs();
  const waiting = useWaiting(tree, chosen);
  const whys = useWhys(waiting.jobs.map((job) => job.id));
  const jobs = [...waiting.jobs].sort((one, two) => placeOf(whys.get(one.id)) - placeOf(whys.get(two.id)));
  const where = chosen ? `queue=${encodeURIComponent([...subtreeOf(tree, chosen)].join(","))}&` : "";
  return (
    <Panel
      title={chosen ? `Waiting jobs in ${chosen}` : "Waiting jobs"}
      note={waiting.count ? `${counted(waiting.count, "job")}, ${gpus(waiting.gpuMilli)} GPUs` : undefined}
      actions={waiting.count > 0 && <a href={`/jobs?${where}phase=submitted%2Cqueued&sort=-submitted`}>All of them</a>}
    >
      {waiting.count === 0 ? (
        <Empty title="No waiting jobs">{chosen ? "All jobs of this queue are placed." : "All jobs are placed."}</Empty>
      ) : (
        <>
          <Causes waiting={waiting} where={where} />
          <ol class="waiters">
            {jobs.map((job) => (
              <Waiter key={job.id} job={job} why={whys.get(job.id)} nowNs={nowNs} />
            ))}
          </ol>
          {waiting.count > jobs.length && (
            <p class="muted waiters-more">
              {counted(waiting.count - jobs.length, "more job")}; shown are those that came first.
            </p>
          )}
        </>
      )}
    </Panel>
  );
}

function Causes({ waiting, where }: { waiting: Waiting; where: string }) {
  return (
    <ul class="causes" aria-label="Reasons">
      {waiting.causes.map(({ reason, jobs, gpuMilli }) => (
        <li key={reason}>
          <a
            href={`/jobs?${where}phase=submitted%2Cqueued&${reason === "held" ? "held=held" : `reason=${reason || "none"}`}`}
          >
            {reasonWords(reason) || "not told yet"}
          </a>
          <span class="causes-bar" aria-hidden="true">
            <span style={{ width: `${(100 * jobs) / waiting.count}%` }} />
          </span>
          <span class="right">
            {jobs.toLocaleString("en-GB")} <span class="muted">· {gpus(gpuMilli)} GPUs</span>
          </span>
        </li>
      ))}
    </ul>
  );
}

function Waiter({ job, why, nowNs }: { job: JobView; why: WhyAnswer | null | undefined; nowNs: number }) {
  const startsAt = why?.expected_start_at || job.reserved_at;
  const [start, until] = startWords(startsAt, nowNs, why === undefined);
  return (
    <li>
      <span class="waiter-place" title="Place in its queue">
        {why?.position ? why.position : job.held ? "–" : "·"}
      </span>
      <span class="waiter-what">
        <a href={`/jobs/${job.id}`}>{job.name}</a>
        <span class="muted">
          {job.team} · <span class="nowrap">{gpus(job.gpu_milli)} GPUs</span> ·{" "}
          <span class="nowrap">waits {long((nowNs - job.submitted_at) / NS_PER_S)}</span>
        </span>
        <span>{why?.detail || job.detail || reasonWords(job.reason)}</span>
      </span>
      <span class="waiter-start">
        {job.held ? (
          <Badge tone="info">held</Badge>
        ) : (
          <>
            <span>{start}</span>
            <small class="muted">{until}</small>
          </>
        )}
      </span>
    </li>
  );
}

/** When it starts, and how far that is. */
function startWords(startsAt: number, nowNs: number, isAsking: boolean): readonly [string, string] {
  if (startsAt > nowNs) return [`by ${clock(startsAt, nowNs)}`, distance(startsAt, nowNs)];
  if (startsAt) return ["any moment", "now"];
  return isAsking ? ["…", ""] : ["start unknown", ""];
}

/** Without a place after those that have one. */
function placeOf(why: WhyAnswer | null | undefined): number {
  return why?.position || Number.POSITIVE_INFINITY;
}

/** Looked for at most once a second, while jobs change. */
function useWaiting(tree: readonly QueueNode[], chosen: string): Waiting {
  const [version, setVersion] = useState(0);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => {
    const end = store.subscribe((changes) => {
      if (!changes.reset && !changes.jobs.size && !changes.goneJobs.size) return;
      timer.current ??= setTimeout(
        () => {
          timer.current = undefined;
          setVersion((old) => old + 1);
        },
        changes.reset ? 0 : EVERY_MS,
      );
    });
    return () => {
      end();
      clearTimeout(timer.current);
      timer.current = undefined;
    };
  }, []);
  const names = tree.map((node) => node.queue.name).join(" ");
  return useMemo(() => {
    const within = chosen ? subtreeOf(tree, chosen) : { has: () => true };
    return waitingIn(within, store.jobs.values(), JOBS_SHOWN);
  }, [version, chosen, names]);
}
