import { useMemo } from "preact/hooks";
import { Pairs, Panel } from "../../ui";
import type { FactView, JobView } from "../../wire";
import { useNowNs } from "../jobs/clock";
import { brief, duration, heldGpus, NS_PER_S, TERMINAL, when } from "../jobs/words";
import { bodyOf } from "./story";
import { traceIdOf } from "./trace";

/** The job in pairs, the same that `muster show` prints. */
export function About({ job }: { job: JobView }) {
  const nowNs = useNowNs(10_000);
  const after = (at: number) => `${brief((at - job.submitted_at) / NS_PER_S)} after submission`;
  const pairs: [string, string][] = [
    ["Kind", job.kind],
    ["Priority", String(job.priority)],
    ["GPUs", heldGpus(job)],
    ["Replicas", replicasOf(job)],
    ["Cluster", job.cluster],
    ["Object", job.origin],
    ["Run", job.attempt ? String(job.attempt) : ""],
    ["Preemptible", job.preemptible ? "" : "no"],
    ["Preempted", job.preemptions ? `${job.preemptions} times` : ""],
    ["Made way for", job.made_way_for],
    ["Submitted", when(job.submitted_at, nowNs)],
    ["Placed", job.placed_at ? after(job.placed_at) : ""],
    ["Running", job.running_at ? after(job.running_at) : ""],
    ["Ended", job.ended_at ? after(job.ended_at) : ""],
    ["Reserved start", job.reserved_at ? when(job.reserved_at, nowNs) : ""],
    ["Ran before", job.ran_s && !TERMINAL.has(job.phase) ? duration(job.ran_s) : ""],
    ["Pre-flight", job.preflight === "null" ? "" : job.preflight],
    ["Exit code", TERMINAL.has(job.phase) ? String(job.exit_code) : ""],
    ["Trace", traceIdOf(job.trace)],
  ];
  return (
    <Panel title="About">
      <Pairs pairs={pairs.filter(([, value]) => value)} />
    </Panel>
  );
}

/** How many it has where that may differ from how many it asked for. */
function replicasOf(job: JobView): string {
  if (!job.min_replicas || job.min_replicas === job.replicas) return String(job.replicas);
  const has = job.slots.length && !TERMINAL.has(job.phase) ? `${job.slots.length} of ` : "";
  return `${has}${job.replicas}, at least ${job.min_replicas}`;
}

/** What was submitted, without what was left at its default. */
export function Specification({ facts }: { facts: readonly FactView[] | undefined }) {
  const spec = useMemo(() => specOf(facts ?? []), [facts]);
  if (!spec) return null;
  return (
    <details class="panel job-spec">
      <summary class="panel-head">
        <h2>Specification</h2>
      </summary>
      <pre class="mono">{spec}</pre>
    </details>
  );
}

function specOf(facts: readonly FactView[]): string {
  for (const fact of facts) {
    if (fact.kind !== "job" || (fact.name !== "submitted" && fact.name !== "routed")) continue;
    const job = bodyOf(fact)?.["job"];
    const spec = typeof job === "object" && job !== null ? (job as { spec?: unknown }).spec : undefined;
    if (spec) return JSON.stringify(spec, null, 2);
  }
  return "";
}
