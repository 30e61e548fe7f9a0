import { Badge, Bar, type Column, format, Table } from "../../ui";
import type { CampaignView, TurnView } from "../../wire";
import { orderedTurns, progressOf, STATE_TONE, STEPS, whatWords } from "./words";

/** Nodes that are done, under way and failed, of all. */
export function ProgressBar({ campaign }: { campaign: CampaignView }) {
  const { all, done, failed, underWay } = progressOf(campaign);
  return (
    <Bar
      label={`Progress of ${campaign.name}`}
      max={all}
      parts={[
        { value: done, label: `${done} done`, tone: "ok" },
        { value: underWay, label: `${underWay} under way`, tone: "used" },
        { value: failed, label: `${failed} failed`, tone: "bad" },
        { value: all - done - underWay - failed, label: `${all - done - underWay - failed} planned`, tone: "free" },
      ]}
    />
  );
}

const CAMPAIGNS: Column<CampaignView>[] = [
  { key: "name", title: "Campaign", width: "180px", narrowWidth: "120px", cell: (one) => one.name },
  { key: "what", title: "What", wideOnly: true, cell: ({ spec }) => <span class="mono">{whatWords(spec)}</span> },
  {
    key: "state",
    title: "State",
    width: "110px",
    narrowWidth: "96px",
    cell: (one) => (
      <Badge tone={STATE_TONE[one.state] ?? "neutral"} title={one.reason}>
        {one.state}
      </Badge>
    ),
  },
  { key: "progress", title: "Progress", width: "170px", wideOnly: true, cell: (one) => <ProgressBar campaign={one} /> },
  {
    key: "done",
    title: "Done",
    width: "100px",
    narrowWidth: "80px",
    align: "right",
    cell: (one) => {
      const { done, all } = progressOf(one);
      return `${format.count(done)} of ${format.count(all)}`;
    },
  },
  { key: "next", title: "Next turn", width: "130px", wideOnly: true, cell: (one) => nextWords(one) },
  {
    key: "ends",
    title: "Ends",
    width: "130px",
    wideOnly: true,
    cell: (one) => format.instant(one.ended_at || one.ends_at),
  },
];

const nextWords = ({ state, next_at }: CampaignView): string => (state === "going" ? format.instant(next_at) : "–");

interface CampaignsProps {
  campaigns: CampaignView[];
  chosen: string;
  onChoose: (name: string) => void;
}

/** Those that go on, then those that are over. */
export function Campaigns({ campaigns, chosen, onChoose }: CampaignsProps) {
  return (
    <Table
      label="Campaigns, active ones first"
      columns={CAMPAIGNS}
      rows={campaigns}
      rowKey={(one) => `${one.name} ${one.accepted_at}`}
      rowClass={(one) => (one.name === chosen ? "selected" : "")}
      onOpen={(one) => onChoose(one.name)}
    />
  );
}

const TURNS: Column<TurnView>[] = [
  {
    key: "node",
    title: "Node",
    width: "170px",
    narrowWidth: "110px",
    cell: ({ node }) => <a href={`/fleet?node=${encodeURIComponent(node)}`}>{node}</a>,
  },
  {
    key: "step",
    title: "Step",
    width: "160px",
    narrowWidth: "140px",
    cell: ({ step }) => <Badge tone={STEPS[step] ?? "neutral"}>{step.replaceAll("-", " ")}</Badge>,
  },
  { key: "since", title: "Since", width: "130px", wideOnly: true, cell: ({ since }) => format.instant(since) },
  { key: "turn", title: "Turn", width: "130px", wideOnly: true, cell: ({ turn_at }) => format.instant(turn_at) },
  {
    key: "waits",
    title: "Waits for",
    width: "120px",
    wideOnly: true,
    cell: ({ waits_for }) => waits_for && <a href={`/jobs/${waits_for}`}>{format.shortId(waits_for)}</a>,
  },
  { key: "try", title: "Try", width: "50px", align: "right", wideOnly: true, cell: ({ attempt }) => attempt },
  { key: "detail", title: "Detail", cell: (turn) => <span title={detailWords(turn)}>{detailWords(turn)}</span> },
];

function detailWords({ detail, cordoned_by }: TurnView): string {
  const before = cordoned_by && `cordoned before by ${cordoned_by}, and will be again`;
  return [detail, before].filter(Boolean).join("; ");
}

export function Turns({ turns }: { turns: readonly TurnView[] }) {
  return (
    <Table
      label="Its nodes"
      columns={TURNS}
      rows={orderedTurns(turns)}
      rowKey={(turn) => turn.node}
      empty="No nodes are left to upgrade."
    />
  );
}
