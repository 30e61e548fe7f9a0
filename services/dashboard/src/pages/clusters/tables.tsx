import { type Column, format, Table } from "../../ui";
import type { RoutingRule, TeamLimit, WaitingView } from "../../wire";
import { matchWords, routeWords } from "./federation";

const RULES: Column<RoutingRule>[] = [
  { key: "name", title: "Rule", width: "150px", narrowWidth: "100px", cell: (rule) => rule.name },
  { key: "match", title: "For", cell: (rule) => <span title={matchWords(rule)}>{matchWords(rule)}</span> },
  { key: "route", title: "Goes to", cell: (rule) => <span title={routeWords(rule)}>{routeWords(rule)}</span> },
];

/** In their order: the first that matches counts. */
export function Rules({ rules }: { rules: RoutingRule[] }) {
  return (
    <Table
      label="Rules in their order"
      columns={RULES}
      rows={rules}
      rowKey={(rule) => rule.name}
      empty="No rules: every job goes to the first cluster that accepts jobs."
    />
  );
}

const LIMITS: Column<TeamLimit>[] = [
  { key: "team", title: "Team", cell: (limit) => limit.team },
  {
    key: "gpus",
    title: "Maximum GPUs",
    width: "130px",
    align: "right",
    cell: ({ gpus }) => (gpus === null ? "no limit" : format.count(gpus)),
  },
  { key: "weight", title: "Weight", width: "80px", align: "right", cell: (limit) => limit.weight },
];

export function Limits({ limits }: { limits: TeamLimit[] }) {
  return (
    <Table
      label="Teams with a limit or a weight"
      columns={LIMITS}
      rows={limits}
      rowKey={(limit) => limit.team}
      empty="No team has a limit over all clusters."
    />
  );
}

const WAITING: Column<WaitingView>[] = [
  { key: "team", title: "Team", width: "130px", narrowWidth: "90px", cell: (lane) => lane.team },
  {
    key: "jobs",
    title: "Jobs",
    width: "80px",
    narrowWidth: "56px",
    align: "right",
    cell: (lane) => format.count(lane.jobs),
  },
  { key: "gpus", title: "GPUs each", width: "100px", align: "right", wideOnly: true, cell: (lane) => lane.gpus },
  { key: "rule", title: "Rule", width: "130px", wideOnly: true, cell: (lane) => lane.rule },
  {
    key: "oldest",
    title: "Oldest",
    width: "130px",
    wideOnly: true,
    cell: (lane) => format.instant(lane.oldest_at),
  },
  { key: "why", title: "Why", cell: (lane) => <span title={whyWords(lane)}>{whyWords(lane)}</span> },
];

function whyWords({ reason, detail, leaving }: WaitingView): string {
  return [detail || reason, leaving && `leaving ${leaving}`].filter(Boolean).join("; ");
}

export function WaitingJobs({ lanes }: { lanes: WaitingView[] }) {
  return (
    <Table
      label="Waiting jobs by request"
      columns={WAITING}
      rows={lanes}
      rowKey={(lane) => `${lane.team} ${lane.rule} ${lane.gpus} ${lane.reason} ${lane.leaving}`}
      empty="Every job has a cluster."
    />
  );
}
