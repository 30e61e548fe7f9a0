import { useEffect, useState } from "preact/hooks";
import { Badge, Broken, Page, Panel, toast, Waiting } from "../../ui";
import type { FactView, JobView } from "../../wire";
import { useNowNs } from "../jobs/clock";
import { About, Specification } from "./about";
import { Actions } from "./actions";
import { useJob, useTrail, useWhy } from "./data";
import { headline } from "./headline";
import { Lifeline } from "./lifeline_bar";
import { OutputPanel } from "./output_panel";
import { PlacementPanel } from "./placement_panel";
import "../jobs/style.css";
import "./style.css";
import { TracePanel } from "./trace_panel";
import { UtilisationPanel } from "./utilisation_panel";

/** One job: first why it is where it is, then what it does, then how it came there. */
export default function Job({ id }: { id: string }) {
  const { job, problem, again } = useJob(id);
  if (problem) {
    return (
      <Page title={`Job ${id.slice(0, 8)}`}>
        <Panel>
          <Broken problem={problem} retry={again} />
        </Panel>
      </Page>
    );
  }
  if (!job) {
    return (
      <Page title={`Job ${id.slice(0, 8)}`}>
        <Waiting what="Loading the job" />
      </Page>
    );
  }
  return <Known job={job} />;
}

function Known({ job }: { job: JobView }) {
  const trail = useTrail(job);
  const hadPlace = job.slots.length > 0 || job.running_at > 0;
  const hasGpus = job.gpu_milli > 0;
  return (
    <Page
      title={job.name}
      note={
        <span class="job-note">
          <Badge phase={job.phase} held={job.held} />
          <CopyId id={job.id} />
          <span>
            {job.principal} of <a href={`/jobs?team=${encodeURIComponent(job.team)}`}>{job.team}</a>, queue{" "}
            <a href={`/queues?queue=${encodeURIComponent(job.queue)}`}>{job.queue}</a>
          </span>
        </span>
      }
      actions={<Actions job={job} />}
    >
      <Answers job={job} facts={trail.facts} />
      <div class="job-columns">
        <div class="job-main">
          {hadPlace && hasGpus && <UtilisationPanel job={job} />}
          {hadPlace && <OutputPanel job={job} />}
          <TracePanel job={job} facts={trail.facts} problem={trail.problem} again={trail.again} />
        </div>
        <div class="job-side">
          {(job.slots.length > 0 || job.nodes.length > 0) && <PlacementPanel job={job} />}
          <About job={job} />
          <Specification facts={trail.facts} />
        </div>
      </div>
    </Page>
  );
}

/** The first line, its answers, and the job's life so far. */
function Answers({ job, facts }: { job: JobView; facts: readonly FactView[] | undefined }) {
  const nowNs = useNowNs();
  const { why, problem } = useWhy(job);
  const { tone, sentence, answers } = headline(job, why, nowNs);
  return (
    <section class={`job-answers answers-${tone}`} aria-label="Phase of the job">
      <p class="job-sentence" role="status">
        {sentence}
      </p>
      <dl>
        {answers.map(({ question, told, more }) => (
          <div key={question}>
            <dt>{question}</dt>
            <dd>
              <strong>{told}</strong>
              {more && <span>{more}</span>}
            </dd>
          </div>
        ))}
      </dl>
      {problem && !why && <p class="note note-warn">The scheduler could not be asked: {problem.message}.</p>}
      {facts !== undefined && <Lifeline facts={facts} nowNs={nowNs} />}
    </section>
  );
}

function CopyId({ id }: { id: string }) {
  const [isCopied, setIsCopied] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setIsCopied(false), 1_500);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = () =>
    navigator.clipboard.writeText(id).then(
      () => setIsCopied(true),
      () => toast(id),
    );
  return (
    <button type="button" class="job-copy mono" title="Copy the job ID" onClick={() => void copy()}>
      {isCopied ? "copied" : id}
    </button>
  );
}
