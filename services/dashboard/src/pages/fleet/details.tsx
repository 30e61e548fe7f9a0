/** What was clicked: one GPU, its node, and the jobs there. */

import type { ComponentChildren } from "preact";
import { Badge, Bar, format, Pairs } from "../../ui";
import type { JobView, NodeView, Reading } from "../../wire";
import type { FleetCells } from "./cells";
import type { Selection } from "./map";
import { AT, markOfSlot } from "./palette";
import { Swatch } from "./swatch";
import { jobsOn, nodeState, STATE_WORDS } from "./words";

const JOBS_SHOWN_MAX = 12;
const HOT_C = 85;

interface DetailsProps {
  cells: FleetCells;
  selection: Selection;
  /** Newest last: what the chosen GPU read lately. */
  history: readonly Reading[];
  /** Job that stands out on the map. */
  job: string;
  onJob: (id: string) => void;
  onPlace: (place: number) => void;
  onClose: () => void;
}

export function Details(props: DetailsProps) {
  const { cells, selection, onClose } = props;
  const at = cells.indexOf(selection.node);
  const node = cells.nodes[at];
  const places = cells.places[at] ?? 0;
  const isPlace = selection.place >= 0 && selection.place < places && !cells.isWithoutGpus(at);
  const title = isPlace ? `${selection.node} · GPU ${selection.place}` : selection.node;
  return (
    <section class="panel fleet-details" aria-label="Details">
      <header class="panel-head">
        <h2>{title}</h2>
        {node && <NodeBadge node={node} />}
        <div class="panel-actions">
          <button
            type="button"
            class="button button-quiet"
            aria-label="Close details"
            title="Close (Esc)"
            onClick={onClose}
          >
            ✕
          </button>
        </div>
      </header>
      <div class="panel-body">
        {!node && <p class="muted">This node no longer exists.</p>}
        {node && isPlace && <Device {...props} cell={(cells.base[at] as number) + selection.place} />}
        {node && <NodePart {...props} at={at} node={node} />}
      </div>
    </section>
  );
}

function NodeBadge({ node }: { node: NodeView }) {
  return <Badge tone={node.lost ? "bad" : node.usable ? "ok" : "warn"}>{nodeState(node)}</Badge>;
}

function Device({ cells, cell, history, job, onJob }: DetailsProps & { cell: number }) {
  const at = cells.nodeOf[cell] as number;
  const reading = cells.readings[at]?.[cell - (cells.base[at] as number)];
  const holders = jobsOn(cells, cell);
  return (
    <>
      <p class="fleet-state-line">
        {STATE_WORDS[cells.stateOf(cell)]}
        {holders.length > 1 && ` by ${format.many(holders.length, "job")}`}
      </p>
      {reading ? <Readings reading={reading} history={history} /> : <p class="muted">Not read yet.</p>}
      {holders.length > 0 && (
        <ul class="fleet-jobs">
          {holders.map((one) => (
            <JobLine key={one.job.id} cells={cells} job={one.job} chosen={job} onJob={onJob}>
              {one.milli < 1000 && `${format.percent(one.milli / 1000)} of it`}
            </JobLine>
          ))}
        </ul>
      )}
    </>
  );
}

function Readings({
  reading: [utilisation, celsius, memoryMib, watts],
  history,
}: {
  reading: Reading;
  history: readonly Reading[];
}) {
  return (
    <div class="fleet-readings">
      <Measure name="Utilization" value={`${Math.round(utilisation)} %`} line={history.map((one) => one[0] / 100)} />
      <Measure
        name="Temperature"
        value={`${Math.round(celsius)} °C${celsius >= HOT_C ? ", hot" : ""}`}
        line={history.map((one) => (one[1] - 20) / 80)}
      />
      <Measure name="Memory" value={format.mebibytes(memoryMib)} />
      <Measure name="Power" value={`${Math.round(watts)} W`} />
    </div>
  );
}

const LINE_WIDTH = 120;
const LINE_HEIGHT = 26;

function Measure({ name, value, line = [] }: { name: string; value: string; line?: number[] }) {
  const points = line.map((share, at) => {
    const x = line.length > 1 ? (at / (line.length - 1)) * LINE_WIDTH : 0;
    return `${x.toFixed(1)},${(LINE_HEIGHT - 1 - Math.min(1, Math.max(0, share)) * (LINE_HEIGHT - 2)).toFixed(1)}`;
  });
  return (
    <div>
      <span class="muted">{name}</span>
      <b>{value}</b>
      {points.length > 1 && (
        <svg viewBox={`0 0 ${LINE_WIDTH} ${LINE_HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          <polyline points={points.join(" ")} />
        </svg>
      )}
    </div>
  );
}

interface JobLineProps {
  cells: FleetCells;
  job: JobView;
  chosen: string;
  onJob: (id: string) => void;
  children?: ComponentChildren;
}

function JobLine({ cells, job, chosen, onJob, children }: JobLineProps) {
  const known = cells.job(cells.jobs.numberOf(job.id));
  const isChosen = chosen === job.id;
  return (
    <li>
      <Swatch
        colour={known ? cells.colourOf(known) : AT.job}
        mark={known && cells.isByTeam ? markOfSlot(known.team) : 0}
      />
      <span class="fleet-job">
        <a href={`/jobs/${encodeURIComponent(job.id)}`}>{job.name}</a>
        <small class="muted">
          {job.team} · {format.many(job.gpu_milli / 1000, "GPU")} on {format.many(job.nodes.length, "node")} {children}
        </small>
      </span>
      <Badge phase={job.phase} />
      <button
        type="button"
        class="button button-quiet"
        aria-pressed={isChosen}
        aria-label={`Show the nodes of job ${job.name}`}
        title="Show its nodes"
        onClick={() => onJob(isChosen ? "" : job.id)}
      >
        ◎
      </button>
    </li>
  );
}

function NodePart({ cells, at, node, selection, job, onJob, onPlace }: DetailsProps & { at: number; node: NodeView }) {
  const jobs = [...new Set(placesOf(cells, at).flatMap((cell) => jobsOn(cells, cell).map((one) => one.job)))];
  const isNode = selection.place < 0 || cells.isWithoutGpus(at);
  return (
    <>
      {!isNode && <h3 class="fleet-sub">Node {node.name}</h3>}
      {node.reason && <p class="note note-warn">{node.reason}</p>}
      <div class="fleet-bars">
        <Held
          name="GPUs"
          held={node.gpu_milli_held / 1000}
          all={node.gpus}
          words={`${format.gpus(node.gpu_milli_held)} of ${node.gpus}`}
        />
        <Held
          name="Cores"
          held={node.cpu_milli_held}
          all={node.cpu_milli}
          words={`${format.cores(node.cpu_milli_held)} of ${format.cores(node.cpu_milli)}`}
        />
        <Held
          name="Memory"
          held={node.memory_mib_held}
          all={node.memory_mib}
          words={`${format.mebibytes(node.memory_mib_held)} of ${format.mebibytes(node.memory_mib)}`}
        />
      </div>
      <Pairs
        pairs={[
          ["Model", node.gpu_model || "–"],
          ["Where", [node.cluster, ...node.domains.map(([level, name]) => `${level} ${name}`)].join(", ")],
          ...(node.group ? ([["Group", node.group]] as [string, string][]) : []),
        ]}
      />
      {!cells.isWithoutGpus(at) && <Places cells={cells} at={at} chosen={selection.place} onPlace={onPlace} />}
      {isNode && jobs.length > 0 && (
        <ul class="fleet-jobs">
          {jobs.slice(0, JOBS_SHOWN_MAX).map((one) => (
            <JobLine key={one.id} cells={cells} job={one} chosen={job} onJob={onJob} />
          ))}
          {jobs.length > JOBS_SHOWN_MAX && <li class="muted">and {jobs.length - JOBS_SHOWN_MAX} more</li>}
        </ul>
      )}
    </>
  );
}

function placesOf(cells: FleetCells, at: number): number[] {
  return Array.from({ length: cells.places[at] ?? 0 }, (_, place) => (cells.base[at] as number) + place);
}

function Held({ name, held, all, words }: { name: string; held: number; all: number; words: string }) {
  return (
    <div>
      <span class="muted">{name}</span>
      <span>{words}</span>
      <Bar max={all} label={name} parts={[{ value: held, label: `${words} held` }]} />
    </div>
  );
}

interface PlacesProps {
  cells: FleetCells;
  at: number;
  chosen: number;
  onPlace: (place: number) => void;
}

/** The node's GPUs, one button each. */
function Places({ cells, at, chosen, onPlace }: PlacesProps) {
  return (
    <fieldset class="fleet-places fleet-set" aria-label="GPUs of this node">
      {placesOf(cells, at).map((cell, place) => {
        const reading = cells.readings[at]?.[place];
        const state = STATE_WORDS[cells.stateOf(cell)];
        return (
          <button
            key={cell}
            type="button"
            class="fleet-place"
            aria-pressed={place === chosen}
            title={state}
            onClick={() => onPlace(place)}
          >
            <b>{place}</b>
            <span>{reading ? `${Math.round(reading[0])} %` : "–"}</span>
            <span class="muted">{reading ? `${Math.round(reading[1])} °C` : cells.stateOf(cell)}</span>
          </button>
        );
      })}
    </fieldset>
  );
}
