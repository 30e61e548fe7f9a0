import { store } from "../../live/store";
import { Badge, Pairs, Panel } from "../../ui";
import type { Alternative, ScaleChoiceView } from "../../wire";
import { brief, long, when } from "../jobs/words";
import { headOf, OUTCOME } from "./choice_list";
import { CASES, outcomeOf, stateOf, wattsOf } from "./words";

const JOBS_SHOWN = 12;

/** One choice in full, with every alternative that was simulated, in the order of looking. */
export function ChoiceDetails({ choice, nowNs }: { choice: ScaleChoiceView; nowNs: number }) {
  const outcome = OUTCOME[outcomeOf(choice)];
  const caseWords = CASES[choice.case];
  const pairs: [string, string][] = [
    ["Case", caseWords ? `${choice.case}: ${caseWords}` : String(choice.case)],
    ["Chosen", choice.at ? when(choice.at, nowNs) : ""],
    ["Node", choice.node],
    ["Group", choice.group],
    ["Power", choice.watts ? `${wattsOf(choice.watts, choice.case)} W` : ""],
    ["Ready after", choice.ready_s ? long(choice.ready_s) : ""],
    ["Devices", choice.devices.join(", ")],
    ["Cluster", choice.cluster],
    ["Id", choice.id],
  ];
  return (
    <Panel title={headOf(choice)} actions={<Badge tone={outcome.tone}>{stateOf(choice, nowNs) || outcome.word}</Badge>}>
      <p class="choice-why">{choice.reason || "No reason was given."}</p>
      {choice.detail && <p class={`note ${choice.outcome === "failed" ? "note-bad" : "note-warn"}`}>{choice.detail}</p>}
      <Pairs pairs={pairs.filter(([, value]) => value)} />
      <Jobs ids={choice.jobs} />
      <h3 class="looked-title">Simulated options</h3>
      {choice.alternatives.length ? (
        <Alternatives alternatives={choice.alternatives} scaleCase={choice.case} />
      ) : (
        <p class="muted">No other options were considered.</p>
      )}
    </Panel>
  );
}

function Jobs({ ids }: { ids: readonly string[] }) {
  if (!ids.length) return null;
  return (
    <p class="choice-jobs">
      <span class="muted">For </span>
      {ids.slice(0, JOBS_SHOWN).map((id, index) => (
        <span key={id}>
          {index > 0 && ", "}
          <a href={`/jobs/${id}`}>{store.jobName(id) || id.slice(0, 8)}</a>
        </span>
      ))}
      {ids.length > JOBS_SHOWN && <span class="muted"> and {ids.length - JOBS_SHOWN} more</span>}
    </p>
  );
}

function Alternatives({ alternatives, scaleCase }: { alternatives: readonly Alternative[]; scaleCase: number }) {
  const longest = Math.max(...alternatives.map((one) => one.ready_s), 0);
  return (
    <ol class="looked">
      {alternatives.map((one, index) => (
        <li key={`${index} ${one.what}`} class={one.chosen ? "looked-chosen" : ""}>
          <p class="looked-head">
            <b>{one.what}</b>
            {one.chosen ? (
              <Badge tone="info">chosen</Badge>
            ) : one.fits ? (
              <Badge tone="ok">would help</Badge>
            ) : (
              <Badge tone="neutral">would not help</Badge>
            )}
          </p>
          {one.detail && <p class="muted">{one.detail}</p>}
          <p class="looked-figures">
            {one.gpus > 0 && <span>{one.gpus} GPUs</span>}
            {one.nodes > 0 && <span>{one.nodes === 1 ? "1 node" : `${one.nodes} nodes`}</span>}
            {one.watts !== 0 && <span>{wattsOf(one.watts, scaleCase)} W</span>}
            {one.ready_s > 0 && (
              <span class="looked-ready">
                <i aria-hidden="true" style={{ width: `${Math.max(3, (90 * one.ready_s) / longest)}px` }} />
                ready in {brief(one.ready_s)}
              </span>
            )}
          </p>
        </li>
      ))}
    </ol>
  );
}
