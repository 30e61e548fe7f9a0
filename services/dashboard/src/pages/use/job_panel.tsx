import { Answered, type Column, Empty, format, Pairs, Panel, Table, useFetched } from "../../ui";
import type { DeviceUse, JobUse } from "../../wire";
import { Activity } from "./activity";
import { courseOf, HEIGHT, WIDTH } from "./course";
import { deviceShares, pctWords, powerWords } from "./words";

const EVERY_MS = 10_000;

/** What one job did with its GPUs over all of its runs, and what its owner could do. */
export function JobPanel({ id }: { id: string }) {
  const fetched = useFetched<JobUse>(`/v1/jobs/${encodeURIComponent(id)}/stats`, { everyMs: EVERY_MS });
  return (
    <Panel title={`Job ${fetched.value?.name || format.shortId(id)}`} actions={<a href={`/jobs/${id}`}>Job page</a>}>
      <Answered of={fetched} what="Loading GPU use of the job">
        {(use) => (use.is_known ? <Told use={use} /> : <Empty title="No measurements of its GPUs yet" />)}
      </Answered>
    </Panel>
  );
}

function Told({ use }: { use: JobUse }) {
  return (
    <div class="use-job">
      {use.advice.map((one) => (
        <p key={one} class="note note-warn">
          {one}
        </p>
      ))}
      <Pairs
        pairs={[
          ["GPUs", format.count(use.gpus)],
          ["Busy", pctWords(use.busy_pct)],
          ["SM active", pctWords(use.sm_active_pct)],
          ["Tensor cores active", pctWords(use.tensor_active_pct)],
          ["Maximum memory", memoryWords(use)],
          ["Maximum power of a GPU", powerWords(use.use.power_w_max)],
          ["Energy", `${use.energy_kwh.toLocaleString("en", { maximumFractionDigits: 2 })} kWh`],
          ["GPU-hours", hoursWords(use.gpu_hours)],
          ["Idle GPU-hours", hoursWords(use.idle_gpu_hours)],
        ]}
      />
      <CoursePicture use={use} />
      <Table
        label="GPUs of the job, least busy first"
        columns={DEVICES}
        rows={use.devices}
        rowKey={(device) => `${device.node} ${device.index} ${device.uuid}`}
      />
    </div>
  );
}

function memoryWords({ use }: JobUse): string {
  const all = use.memory_total_mib ? ` of ${format.mebibytes(use.memory_total_mib)}` : "";
  return `${format.mebibytes(use.memory_mib_max)}${all}`;
}

const hoursWords = (hours: number): string => hours.toLocaleString("en", { maximumFractionDigits: 2 });

function CoursePicture({ use }: { use: JobUse }) {
  const course = courseOf(use);
  if (!course) {
    return <p class="muted">The chart begins with the second reading.</p>;
  }
  return (
    <figure class="use-course">
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Over time: busy ${pctWords(use.busy_pct)} on average, SM active ${pctWords(use.sm_active_pct)}`}
      >
        <polyline class="use-busy" points={course.busy} />
        {course.sm && <polyline class="use-sm" points={course.sm} />}
      </svg>
      <figcaption>
        <span class="muted">{format.instant(course.fromNs)}</span>
        <span class="use-key use-busy">busy</span>
        {course.sm && <span class="use-key use-sm">SM active</span>}
        <span class="muted">{format.instant(course.toNs)}</span>
      </figcaption>
    </figure>
  );
}

const DEVICES: Column<DeviceUse>[] = [
  { key: "gpu", title: "GPU", cell: (device) => <span title={device.uuid}>{`${device.node} #${device.index}`}</span> },
  {
    key: "activity",
    title: "Busy, active",
    width: "140px",
    cell: (device) => <Activity of={`GPU ${device.node} ${device.index}`} {...deviceShares(device)} />,
  },
  {
    key: "memory",
    title: "Memory",
    width: "90px",
    align: "right",
    wideOnly: true,
    cell: (device) => format.mebibytes(device.use.memory_mib_max),
  },
];
