/** The job that stands out on the map: what it is, how busy its GPUs are, where it runs. */

import { Badge, format, Pairs } from "../../ui";
import type { JobView, Reading } from "../../wire";
import type { FleetCells } from "./cells";

const NODES_SHOWN_MAX = 24;

interface JobPanelProps {
  cells: FleetCells;
  id: string;
  /** Undefined: it is not known here, or no more. */
  job: JobView | undefined;
  onNode: (node: string) => void;
  onClose: () => void;
}

export function JobPanel({ cells, id, job, onNode, onClose }: JobPanelProps) {
  return (
    <section class="panel fleet-details" aria-label="Job">
      <header class="panel-head">
        <h2>{job ? job.name : `Job ${format.shortId(id)}`}</h2>
        {job && <Badge phase={job.phase} />}
        <div class="panel-actions">
          <button
            type="button"
            class="button button-quiet"
            aria-label="Close job"
            title="Show all jobs"
            onClick={onClose}
          >
            ✕
          </button>
        </div>
      </header>
      <div class="panel-body">
        {job ? (
          <About cells={cells} job={job} onNode={onNode} />
        ) : (
          <p class="muted">The job holds no GPUs now. Its page shows its history.</p>
        )}
        <a href={`/jobs/${encodeURIComponent(id)}`}>Open the page of this job</a>
      </div>
    </section>
  );
}

function About({ cells, job, onNode }: Pick<JobPanelProps, "cells" | "onNode"> & { job: JobView }) {
  const readings = readingsOf(cells, job);
  const mean = (part: 0 | 1): number =>
    readings.reduce((sum, reading) => sum + reading[part], 0) / Math.max(1, readings.length);
  const used: [string, string][] =
    readings.length > 0
      ? [
          ["Mean utilization", `${Math.round(mean(0))} %`],
          ["Mean temperature", `${Math.round(mean(1))} °C`],
        ]
      : [];
  return (
    <>
      <Pairs
        pairs={[
          ["Team", job.team],
          ["Queue", job.queue],
          ["GPUs", format.gpus(job.gpu_milli)],
          ["Nodes", format.count(job.nodes.length)],
          ...(job.running_at ? ([["Running", format.relative(job.running_at)]] as [string, string][]) : []),
          ...used,
        ]}
      />
      {job.nodes.length === 0 && <p class="muted">It waits{job.detail && `: ${job.detail}`}.</p>}
      <div class="fleet-nodes">
        {job.nodes.slice(0, NODES_SHOWN_MAX).map((node) => (
          <button key={node} type="button" class="fleet-place" onClick={() => onNode(node)}>
            {node}
          </button>
        ))}
        {job.nodes.length > NODES_SHOWN_MAX && <span class="muted">and {job.nodes.length - NODES_SHOWN_MAX} more</span>}
      </div>
    </>
  );
}

/** Of every GPU that the job holds something of. */
function readingsOf(cells: FleetCells, job: JobView): Reading[] {
  return job.slots.flatMap((slot) => {
    const readings = cells.readings[cells.indexOf(slot.node)] ?? [];
    return slot.devices.map((device) => readings[device] ?? null).filter((reading) => reading !== null);
  });
}
