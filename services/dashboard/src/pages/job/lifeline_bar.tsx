import { useMemo } from "preact/hooks";
import type { FactView } from "../../wire";
import { brief, NS_PER_S } from "../jobs/words";
import { lifelineOf, type Stage, type Stretch } from "./lifeline";

const WORDS: Readonly<Record<Stage, string>> = {
  waiting: "waiting",
  held: "held back",
  starting: "starting",
  running: "running",
  stopping: "stopping",
};

/** The job's life as one bar, with how long it spent in what. */
export function Lifeline({ facts, nowNs }: { facts: readonly FactView[]; nowNs: number }) {
  const life = useMemo(() => lifelineOf(facts, nowNs), [facts, nowNs]);
  if (!life.stretches.length) return null;
  const told = [...life.lengths].map(([stage, seconds]) => `${WORDS[stage]} ${brief(seconds)}`).join(", ");
  return (
    <div class="life">
      <div class="life-bar" role="img" aria-label={`Phases of the job: ${told}${life.ended ? `; ${life.ended}` : ""}`}>
        {life.stretches.map((stretch) => (
          <span
            key={`${stretch.fromNs} ${stretch.stage}`}
            class={`life-part life-${stretch.stage}`}
            style={{ width: `${stretch.share * 100}%` }}
            title={tipOf(stretch)}
          />
        ))}
        {life.ended && <span class="life-end" data-phase={life.ended} title={life.ended} />}
      </div>
      <ul class="life-legend" aria-hidden="true">
        {[...life.lengths].map(([stage, seconds]) => (
          <li key={stage}>
            <i class={`life-${stage}`} /> {WORDS[stage]} <b>{brief(seconds)}</b>
          </li>
        ))}
        {life.ended && <li class="life-ended">{life.ended}</li>}
      </ul>
    </div>
  );
}

function tipOf({ stage, fromNs, toNs, attempt, because }: Stretch): string {
  const run = attempt > 1 ? `, run ${attempt}` : "";
  return `${WORDS[stage]} for ${brief((toNs - fromNs) / NS_PER_S)}${run}, since ${because}`;
}
