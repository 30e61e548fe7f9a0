import { Badge, type Column, format, Table } from "../../ui";
import type { Condition, EndedIllness, FaultCount } from "../../wire";
import { CLASS_TONE, keptOf, PHASE_TONE, reasonOf, triesOf } from "./words";

const CONDITIONS: Column<Condition>[] = [
  { key: "node", title: "Node", width: "150px", narrowWidth: "110px", cell: (one) => one.node },
  {
    key: "what",
    title: "What",
    width: "150px",
    wideOnly: true,
    cell: (one) => (one.kind === "node" ? "the node" : <span title={one.name}>{one.name}</span>),
  },
  {
    key: "state",
    title: "State",
    width: "130px",
    narrowWidth: "120px",
    cell: (one) => (
      <Badge tone={PHASE_TONE[one.phase]} title={keptOf(one)}>
        {one.phase}
      </Badge>
    ),
  },
  {
    key: "since",
    title: "Since",
    width: "120px",
    wideOnly: true,
    cell: (one) => <time title={format.instantInFull(one.since)}>{format.instant(one.since)}</time>,
  },
  { key: "tries", title: "Tries", width: "124px", wideOnly: true, cell: triesOf },
  {
    key: "reason",
    title: "Reason",
    cell: (one) => (
      <span title={reasonOf(one)}>
        {one.needs_person && <b>needs a person: </b>}
        {reasonOf(one)}
      </span>
    ),
  },
];

interface ConditionsProps {
  conditions: Condition[];
  chosen: string;
  onChoose: (node: string) => void;
}

/** What needs a person first, then newest first. */
export function Conditions({ conditions, chosen, onChoose }: ConditionsProps) {
  return (
    <Table
      label="Nodes and GPUs with faults"
      columns={CONDITIONS}
      rows={conditions}
      rowKey={(one) => `${one.kind} ${one.name}`}
      rowClass={(one) => (one.node === chosen ? "selected" : "")}
      onOpen={(one) => onChoose(one.node)}
      empty="Every node and every GPU is healthy."
    />
  );
}

const ENDED: Column<EndedIllness>[] = [
  { key: "ended", title: "Ended", width: "120px", narrowWidth: "92px", cell: (one) => format.instant(one.ended_at) },
  { key: "node", title: "Node", width: "150px", narrowWidth: "110px", cell: (one) => one.node },
  {
    key: "took",
    title: "After",
    width: "110px",
    align: "right",
    wideOnly: true,
    cell: (one) => format.duration(format.secondsBetween(one.began_at, one.ended_at)),
  },
  { key: "tries", title: "Tries", width: "70px", align: "right", wideOnly: true, cell: (one) => one.attempts },
  {
    key: "codes",
    title: "Fault",
    cell: (one) => <span title={one.name}>{one.codes.join(", ")}</span>,
  },
];

export function Ended({ ended }: { ended: EndedIllness[] }) {
  return (
    <Table
      label="Over"
      columns={ENDED}
      rows={ended}
      rowKey={(one) => `${one.name} ${one.began_at} ${one.ended_at}`}
      empty="No hardware has recovered yet."
    />
  );
}

const COUNTS: Column<FaultCount>[] = [
  { key: "code", title: "Code", cell: (one) => <span class="mono">{one.code}</span> },
  {
    key: "class",
    title: "Class",
    width: "120px",
    narrowWidth: "110px",
    cell: (one) => <Badge tone={CLASS_TONE[one.fault_class]}>{one.fault_class}</Badge>,
  },
  {
    key: "count",
    title: "Seen",
    width: "90px",
    narrowWidth: "60px",
    align: "right",
    cell: (one) => format.count(one.count),
  },
];

/** The most frequent first. */
export function Counts({ counts }: { counts: FaultCount[] }) {
  return (
    <Table
      label="Codes"
      columns={COUNTS}
      rows={[...counts].sort((a, b) => b.count - a.count)}
      rowKey={(one) => `${one.code} ${one.fault_class}`}
      empty="No faults were detected."
    />
  );
}
