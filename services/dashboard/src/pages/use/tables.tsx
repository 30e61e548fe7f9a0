import { type Column, format, Table } from "../../ui";
import type { Idle, IdleGpu, TopRow } from "../../wire";
import { Activity } from "./activity";
import { gpuHours, pctWords, powerWords, type TeamRow, teamRows } from "./words";

const TEAMS: Column<TeamRow>[] = [
  {
    key: "team",
    title: "Team",
    cell: ({ team }) => <a href={`/jobs?team=${encodeURIComponent(team)}`}>{team || "none"}</a>,
  },
  {
    key: "gpus",
    title: "GPUs",
    width: "70px",
    narrowWidth: "56px",
    align: "right",
    cell: ({ use, idle }) => use?.gpus ?? idle?.held ?? 0,
  },
  {
    key: "activity",
    title: "Busy, active",
    width: "170px",
    wideOnly: true,
    cell: ({ team, use }) => use && <Activity of={`team ${team}`} busyPct={use.busy_pct} smPct={use.sm_active_pct} />,
  },
  {
    key: "busy",
    title: "Busy",
    width: "80px",
    narrowWidth: "62px",
    align: "right",
    cell: ({ use }) => use && pctWords(use.busy_pct),
  },
  {
    key: "sm",
    title: "SM active",
    width: "96px",
    align: "right",
    wideOnly: true,
    cell: ({ use }) => use && pctWords(use.sm_active_pct),
  },
  {
    key: "memory",
    title: "Memory",
    width: "84px",
    align: "right",
    wideOnly: true,
    cell: ({ use }) => use && pctWords(use.memory_pct),
  },
  {
    key: "power",
    title: "Power",
    width: "90px",
    align: "right",
    wideOnly: true,
    cell: ({ use }) => use && powerWords(use.power_w),
  },
  {
    key: "idle",
    title: "Idle GPUs",
    width: "90px",
    narrowWidth: "84px",
    align: "right",
    cell: ({ idle }) => (idle?.idle ? <b>{idle.idle}</b> : 0),
  },
  {
    key: "hours",
    title: "Idle GPU-h",
    width: "96px",
    align: "right",
    wideOnly: true,
    cell: ({ idle }) => gpuHours(idle?.idle_s ?? 0),
  },
];

/** Who holds GPUs and what for; who leaves most idle comes first. */
export function Teams({ rows, idle }: { rows: TopRow[]; idle: Idle | undefined }) {
  return (
    <Table
      label="Use by team"
      columns={TEAMS}
      rows={teamRows(rows, idle)}
      rowKey={(row) => row.team}
      empty="No team holds a GPU that an exporter reports."
    />
  );
}

function holdersColumns(by: string): Column<TopRow>[] {
  const isJob = by === "job";
  return [
    {
      key: "key",
      title: by.charAt(0).toUpperCase() + by.slice(1),
      cell: (row) => (isJob ? row.name || format.shortId(row.key) : row.key || "none"),
    },
    ...(isJob ? [{ key: "team", title: "Team", width: "120px", wideOnly: true, cell: (row: TopRow) => row.team }] : []),
    ...(isJob
      ? []
      : [
          {
            key: "jobs",
            title: "Jobs",
            width: "70px",
            narrowWidth: "52px",
            align: "right" as const,
            cell: (row: TopRow) => row.jobs,
          },
        ]),
    { key: "gpus", title: "GPUs", width: "70px", narrowWidth: "56px", align: "right", cell: (row) => row.gpus },
    {
      key: "idle",
      title: "Idle",
      width: "70px",
      narrowWidth: "48px",
      align: "right",
      cell: (row) => (row.idle ? <b>{row.idle}</b> : 0),
    },
    {
      key: "activity",
      title: "Busy, active",
      width: "170px",
      wideOnly: true,
      cell: (row) => <Activity of={`${by} ${row.name || row.key}`} busyPct={row.busy_pct} smPct={row.sm_active_pct} />,
    },
    {
      key: "busy",
      title: "Busy",
      width: "80px",
      narrowWidth: "62px",
      align: "right",
      cell: (row) => pctWords(row.busy_pct),
    },
    {
      key: "sm",
      title: "SM active",
      width: "96px",
      align: "right",
      wideOnly: true,
      cell: (row) => pctWords(row.sm_active_pct),
    },
    {
      key: "tensor",
      title: "Tensor",
      width: "90px",
      align: "right",
      wideOnly: true,
      cell: (row) => pctWords(row.tensor_active_pct),
    },
    {
      key: "memory",
      title: "Memory",
      width: "84px",
      align: "right",
      wideOnly: true,
      cell: (row) => pctWords(row.memory_pct),
    },
    {
      key: "power",
      title: "Power",
      width: "90px",
      align: "right",
      wideOnly: true,
      cell: (row) => powerWords(row.power_w),
    },
  ];
}

interface HoldersProps {
  by: string;
  rows: TopRow[];
  chosen: string;
  onChoose: (key: string) => void;
}

/** Jobs, queues, users or models by their GPUs; a job opens. */
export function Holders({ by, rows, chosen, onChoose }: HoldersProps) {
  return (
    <Table
      label={`GPU use by ${by}`}
      columns={holdersColumns(by)}
      rows={rows}
      rowKey={(row) => row.key}
      selected={chosen}
      {...(by === "job" && { onOpen: (row: TopRow) => onChoose(row.key) })}
      empty="No job holds a GPU that an exporter reports."
    />
  );
}

const IDLE: Column<IdleGpu>[] = [
  {
    key: "gpu",
    title: "GPU",
    width: "190px",
    narrowWidth: "110px",
    cell: (gpu) => (
      <a href={`/fleet?node=${encodeURIComponent(gpu.node)}`} title={gpu.uuid}>
        {gpu.node} #{gpu.index}
      </a>
    ),
  },
  {
    key: "job",
    title: "Job",
    cell: (gpu) => <a href={`/jobs/${gpu.job_id}`}>{gpu.name || format.shortId(gpu.job_id)}</a>,
  },
  { key: "team", title: "Team", width: "130px", wideOnly: true, cell: (gpu) => gpu.team },
  { key: "user", title: "User", width: "110px", wideOnly: true, cell: (gpu) => gpu.user },
  { key: "model", title: "Model", width: "200px", wideOnly: true, cell: (gpu) => gpu.model },
  {
    key: "idle",
    title: "Idle for",
    width: "120px",
    narrowWidth: "76px",
    align: "right",
    cell: (gpu) => format.duration(gpu.idle_s),
  },
];

/** The longest idle first. */
export function IdleGpus({ idle }: { idle: Idle }) {
  return (
    <Table
      label="Held and idle"
      columns={IDLE}
      rows={idle.gpus}
      rowKey={(gpu) => `${gpu.node} ${gpu.index} ${gpu.job_id}`}
      empty="No held GPU is idle."
    />
  );
}
