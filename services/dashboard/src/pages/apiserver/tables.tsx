import { Badge, type Column, format, Table } from "../../ui";
import type { ApiServerReplica, FlowLevel, Lister, StoredKind } from "../../wire";
import { bytesWords, memoryWords } from "./memory";

const number = (value: number): string => value.toLocaleString("en", { maximumFractionDigits: 1 });

const REPLICAS: Column<ApiServerReplica>[] = [
  { key: "name", title: "API server", cell: (one) => one.name },
  {
    key: "memory",
    title: "Memory",
    width: "110px",
    align: "right",
    cell: (one) => (one.error ? <Badge tone="bad">cannot be read</Badge> : memoryWords(one.memory_mib)),
  },
  { key: "cpu", title: "Cores", width: "80px", align: "right", wideOnly: true, cell: (one) => number(one.cpu_cores) },
  {
    key: "flight",
    title: "In flight",
    width: "100px",
    align: "right",
    cell: (one) => `${one.in_flight} + ${one.in_flight_mutating}`,
  },
  { key: "rate", title: "Requests/s", width: "110px", align: "right", cell: (one) => number(one.requests_per_s) },
  { key: "lists", title: "LISTs/s", width: "90px", align: "right", cell: (one) => number(one.lists_per_s) },
  { key: "watches", title: "Watches", width: "90px", align: "right", wideOnly: true, cell: (one) => one.watches },
  {
    key: "since",
    title: "Since",
    width: "130px",
    wideOnly: true,
    cell: (one) => (one.started_at ? format.instant(one.started_at) : ""),
  },
];

export function Replicas({ replicas }: { replicas: ApiServerReplica[] }) {
  return <Table label="API servers" columns={REPLICAS} rows={replicas} rowKey={(one) => one.name} />;
}

const LISTERS: Column<Lister>[] = [
  { key: "client", title: "Client", cell: (one) => <span class="mono">{one.client}</span> },
  { key: "by", title: "Known by", width: "110px", wideOnly: true, cell: (one) => one.known_by },
  { key: "resource", title: "Of", width: "170px", cell: (one) => one.resource || "all kinds" },
  { key: "rate", title: "LISTs/min", width: "100px", align: "right", cell: (one) => number(one.lists_per_minute) },
  { key: "all", title: "In all", width: "90px", align: "right", wideOnly: true, cell: (one) => number(one.lists) },
];

export function Listers({ listers }: { listers: Lister[] }) {
  return (
    <Table
      label="LIST requests by client"
      columns={LISTERS}
      rows={listers}
      rowKey={(one) => `${one.client} ${one.resource}`}
      empty="No LIST requests since the guard started."
    />
  );
}

const LEVELS: Column<FlowLevel>[] = [
  { key: "name", title: "Priority level", cell: (one) => <LevelName level={one} /> },
  {
    key: "seats",
    title: "Seats",
    width: "80px",
    align: "right",
    cell: (one) => (one.is_exempt ? "no limit" : one.seats),
  },
  { key: "executing", title: "Executing", width: "100px", align: "right", cell: (one) => one.executing },
  { key: "queued", title: "Queued", width: "90px", align: "right", cell: (one) => one.queued },
  { key: "rejected", title: "Rejected", width: "100px", align: "right", cell: (one) => number(one.rejected) },
  {
    key: "wait",
    title: "Wait p99",
    width: "100px",
    align: "right",
    wideOnly: true,
    cell: (one) => (one.wait_ms_p99 ? format.duration(one.wait_ms_p99 / 1000) : ""),
  },
];

function LevelName({ level }: { level: FlowLevel }) {
  if (!level.wanted) {
    return <>{level.name}</>;
  }
  const isRight = level.wanted === level.seats;
  return (
    <>
      {level.name} <Badge tone={isRight ? "ok" : "bad"}>{isRight ? "kept" : `${level.wanted} seats wanted`}</Badge>
    </>
  );
}

export function Levels({ levels }: { levels: FlowLevel[] }) {
  return <Table label="Priority levels" columns={LEVELS} rows={levels} rowKey={(one) => one.name} />;
}

const KINDS: Column<StoredKind>[] = [
  { key: "resource", title: "Kind", cell: (one) => one.resource },
  { key: "objects", title: "Objects", width: "110px", align: "right", cell: (one) => number(one.objects) },
  {
    key: "bytes",
    title: "Size",
    width: "110px",
    align: "right",
    cell: (one) => (one.bytes ? bytesWords(one.bytes) : ""),
  },
];

export function Kinds({ kinds }: { kinds: StoredKind[] }) {
  return <Table label="Objects by resource" columns={KINDS} rows={kinds} rowKey={(one) => one.resource} />;
}
