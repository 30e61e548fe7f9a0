import { Badge, Panel, type Tone } from "../../ui";
import type { ScaleChoiceView } from "../../wire";
import { distance } from "../jobs/words";
import { keyOf, type Outcome, outcomeOf, stateOf, whatOf } from "./words";

export const OUTCOME: Readonly<Record<Outcome, { tone: Tone; word: string }>> = {
  going: { tone: "info", word: "under way" },
  done: { tone: "ok", word: "done" },
  failed: { tone: "bad", word: "failed" },
  nothing: { tone: "neutral", word: "nothing helps" },
};

interface ChoiceListProps {
  choices: readonly ScaleChoiceView[];
  chosen: string;
  nowNs: number;
  onChoose: (id: string) => void;
}

/** Newest first, each with its reason. */
export function ChoiceList({ choices, chosen, nowNs, onChoose }: ChoiceListProps) {
  return (
    <Panel title="Choices" flush>
      <ol class="choices">
        {choices.map((choice) => (
          <li key={keyOf(choice)}>
            <button
              type="button"
              class="choice"
              aria-pressed={keyOf(choice) === chosen}
              onClick={() => onChoose(keyOf(choice))}
            >
              <span class="choice-head">
                <b>{headOf(choice)}</b>
                <Badge tone={OUTCOME[outcomeOf(choice)].tone}>{stateOf(choice, nowNs) || OUTCOME.nothing.word}</Badge>
              </span>
              <span class="choice-reason">{choice.reason}</span>
              <small class="muted">{choice.at ? distance(choice.at, nowNs) : ""}</small>
            </button>
          </li>
        ))}
      </ol>
    </Panel>
  );
}

/** `Attach 2 × H100 to gpu-0003`. */
export function headOf(choice: ScaleChoiceView): string {
  const what = whatOf(choice);
  const where = choice.node || choice.group;
  const joint = choice.name === "gpu-attach-chosen" ? "to" : choice.name === "gpu-remove-chosen" ? "from" : "";
  return `${what.charAt(0).toUpperCase()}${what.slice(1)}${where ? ` ${joint} ${where}`.replace("  ", " ") : ""}`;
}
