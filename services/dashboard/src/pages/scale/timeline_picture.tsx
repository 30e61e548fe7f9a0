import type { ScaleChoiceView } from "../../wire";
import { clock, NS_PER_S } from "../jobs/words";
import { timelineOf } from "./timeline";
import { keyOf, stateOf, whatOf } from "./words";

const ROW_PX = 22;
const SECONDS_BELOW_S = 600;

interface PictureProps {
  choices: readonly ScaleChoiceView[];
  chosen: string;
  nowNs: number;
  onChoose: (id: string) => void;
}

/** A lane for each thing that can be chosen; a mark lasts as long as the choice took. */
export function TimelinePicture({ choices, chosen, nowNs, onChoose }: PictureProps) {
  const { lanes, ticks, fromNs, toNs } = timelineOf(choices, nowNs);
  return (
    <div class="when">
      {lanes.map((lane) => (
        <div class="when-lane" key={lane.title}>
          <span class="when-title">{lane.title}</span>
          <div class="when-track" style={{ height: `${lane.rows * ROW_PX}px` }}>
            {lane.marks.map(({ choice, outcome, left, width, row }) => (
              <button
                key={keyOf(choice)}
                type="button"
                class={`when-mark when-${outcome}`}
                aria-pressed={keyOf(choice) === chosen}
                aria-label={`${whatOf(choice)} ${choice.node || choice.group}, ${clock(choice.at, nowNs)}, ${stateOf(choice, nowNs)}`}
                title={`${whatOf(choice)} ${choice.node || choice.group}: ${choice.reason}`}
                style={{
                  left: `${left * 100}%`,
                  top: `${row * ROW_PX + 3}px`,
                  ...(outcome === "nothing" ? {} : { width: `${width * 100}%` }),
                }}
                onClick={() => onChoose(keyOf(choice))}
              />
            ))}
          </div>
        </div>
      ))}
      <div class="when-lane when-axis" aria-hidden="true">
        <span />
        <div>
          {ticks.map((tick, index) => (
            <span key={tick.at} style={{ left: `${tick.at * 100}%` }} data-edge={edgeOf(index, ticks.length)}>
              {index === ticks.length - 1 ? "now" : tickWords(tick.ns, nowNs, toNs - fromNs)}
            </span>
          ))}
        </div>
      </div>
    </div>
  );
}

/** With seconds where minutes would repeat. */
function tickWords(atNs: number, nowNs: number, spanNs: number): string {
  return spanNs < SECONDS_BELOW_S * NS_PER_S ? new Date(atNs / 1e6).toLocaleTimeString("en-GB") : clock(atNs, nowNs);
}

function edgeOf(index: number, count: number): string | undefined {
  return index === 0 ? "start" : index === count - 1 ? "end" : undefined;
}
