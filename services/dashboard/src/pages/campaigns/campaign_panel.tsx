import { Answered, Badge, format, Pairs, Panel, useCluster, useFetched } from "../../ui";
import type { CampaignSpec, CampaignView, Window } from "../../wire";
import { Actions } from "./actions";
import { ProgressBar, Turns } from "./tables";
import { STATE_TONE, STEPS, stepCounts, whatWords } from "./words";

const EVERY_MS = 5_000;

/** One campaign: what it does, how far it is, and where each of its nodes stands. */
export function CampaignPanel({ name, onChange }: { name: string; onChange: () => void }) {
  const { asked } = useCluster();
  const fetched = useFetched<CampaignView>(asked(`/v1/campaigns/${encodeURIComponent(name)}`), { everyMs: EVERY_MS });
  const campaign = fetched.value;
  const changed = (): void => {
    fetched.again();
    onChange();
  };
  return (
    <Panel
      title={`Campaign ${name}`}
      note={campaign && <Badge tone={STATE_TONE[campaign.state] ?? "neutral"}>{campaign.state}</Badge>}
      actions={campaign && <Actions campaign={campaign} onChange={changed} />}
    >
      <Answered of={fetched} what="Loading campaigns">
        {(found) => <Told campaign={found} />}
      </Answered>
    </Panel>
  );
}

function Told({ campaign }: { campaign: CampaignView }) {
  const { spec, state, reason, ended } = campaign;
  return (
    <div class="campaign">
      {reason && <p class={state === "stopped" ? "note note-bad" : "note note-warn"}>{reason}</p>}
      {ended?.reason && ended.reason !== reason && <p class="note note-warn">{ended.reason}</p>}
      <ProgressBar campaign={campaign} />
      <ul class="campaign-steps" aria-label="Nodes at each step">
        {stepCounts(campaign).map(([step, nodes]) => (
          <li key={step}>
            <Badge tone={STEPS[step] ?? "neutral"}>
              {format.count(nodes)} {step.replaceAll("-", " ")}
            </Badge>
          </li>
        ))}
      </ul>
      <Pairs
        pairs={[
          ["What", whatWords(spec)],
          ["Next turn", state === "going" ? format.instant(campaign.next_at) : "–"],
          campaign.ended_at
            ? ["Ended", format.instant(campaign.ended_at)]
            : ["Expected end", campaign.ends_at ? endWords(campaign.ends_at) : "nobody knows"],
          ["Out of use", `${campaign.out_of_use} of at most ${campaign.out_of_use_most}`],
          ["Without a turn", format.count(campaign.without_turn)],
          ["GPU-hours lost", campaign.gpu_hours_lost.toLocaleString("en", { maximumFractionDigits: 1 })],
          ["Limits", limitWords(spec)],
          ["When", spec.windows.length ? spec.windows.map(windowWords).join("; ") : "at any time"],
          ["Started by", `${campaign.principal || "nobody known"}, ${format.instant(campaign.accepted_at)}`],
        ]}
      />
      <Turns turns={campaign.nodes} />
    </div>
  );
}

const endWords = (at: number): string => `${format.instant(at)}, ${format.relative(at)}`;

function limitWords(spec: CampaignSpec): string {
  return [
    `${spec.max_unavailable} out of use`,
    spec.per_rack && `${spec.per_rack} of a rack`,
    spec.per_group && `${spec.per_group} of a group`,
    `stops after ${format.many(spec.failures_max, "failure")}`,
  ]
    .filter(Boolean)
    .join(", ");
}

const DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

function windowWords({ days, from_min, to_min }: Window): string {
  const clock = (minute: number): string =>
    `${String(Math.floor(minute / 60)).padStart(2, "0")}:${String(minute % 60).padStart(2, "0")}`;
  const when = days.length ? days.map((day) => DAYS[day] ?? "").join(" ") : "daily";
  return `${when} ${clock(from_min)} to ${clock(to_min)} UTC`;
}
