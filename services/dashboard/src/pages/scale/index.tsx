import { useEffect, useMemo, useRef } from "preact/hooks";
import { store } from "../../live/store";
import { Broken, ClusterChoice, Empty, Page, Panel, useCluster, useFetched, useQueryParams, Waiting } from "../../ui";
import type { ScaleChoiceView } from "../../wire";
import { useNowNs } from "../jobs/clock";
import { ChoiceDetails } from "./choice_details";
import { ChoiceList } from "./choice_list";
import "../jobs/style.css";
import "./style.css";
import { TimelinePicture } from "./timeline_picture";
import { keyOf, NOTHING, outcomeOf } from "./words";

const SETTLE_MS = 300; // facts that come within this time are asked about together
const EVERY_MS = 15_000;

/** What the scaler chose, when, why, and what else it looked at. */
export default function Scale() {
  const { asked } = useCluster();
  const { value, problem, again } = useFetched<{ choices: ScaleChoiceView[] }>(asked("/v1/scale"), {
    everyMs: EVERY_MS,
  });
  useOnScaleFacts(again);
  const [params, setParams] = useQueryParams({ choice: "", nothing: "shown" });
  const nowNs = useNowNs();
  const all = value?.choices ?? [];
  const choices = useMemo(
    () => (params.nothing === "hidden" ? all.filter((choice) => choice.name !== NOTHING) : all),
    [value, params.nothing],
  );
  const chosen = choices.find((choice) => keyOf(choice) === params.choice) ?? choices[0];
  const going = all.filter((choice) => outcomeOf(choice) === "going").length;
  const isHidden = params.nothing === "hidden";
  return (
    <Page
      title="Scale"
      note={
        all.length
          ? `${all.length === 1 ? "1 choice" : `the newest ${all.length} choices`}, ${going ? `${going} under way` : "none under way"}`
          : undefined
      }
      actions={
        <>
          {all.length > 0 && (
            <label class="check">
              <input
                type="checkbox"
                checked={!isHidden}
                onChange={(event) => setParams({ nothing: event.currentTarget.checked ? "shown" : "hidden" })}
              />
              Show decisions without a helpful option
            </label>
          )}
          <ClusterChoice clears={["choice"]} />
        </>
      }
    >
      {problem && !value ? (
        <Panel>
          <Broken problem={problem} retry={again} />
        </Panel>
      ) : !value ? (
        <Waiting what="Loading scaling decisions" />
      ) : !chosen ? (
        <Panel>
          <Empty title={all.length ? "All decisions are hidden" : "No decisions yet"}>
            {all.length
              ? "In all decisions no option helped; show them."
              : "The scaler decides when a job waits for GPUs that a pool or a node group could add, or when GPUs are idle. A fleet that cannot grow has no decisions."}
          </Empty>
        </Panel>
      ) : (
        <>
          {problem && <p class="note note-warn">These are the choices as they were told last: {problem.message}.</p>}
          <Panel title="When" flush>
            <TimelinePicture
              choices={choices}
              chosen={keyOf(chosen)}
              nowNs={nowNs}
              onChoose={(choice) => setParams({ choice })}
            />
          </Panel>
          <div class="scale-columns">
            <ChoiceList
              choices={choices}
              chosen={keyOf(chosen)}
              nowNs={nowNs}
              onChoose={(choice) => setParams({ choice })}
            />
            <ChoiceDetails choice={chosen} nowNs={nowNs} />
          </div>
        </>
      )}
    </Page>
  );
}

/** Ask again when the scaler spoke. */
function useOnScaleFacts(again: () => void): void {
  const newest = useRef(again);
  newest.current = again;
  useEffect(() => {
    let soon: ReturnType<typeof setTimeout> | undefined;
    const end = store.subscribe((changes) => {
      if (!changes.facts.some((fact) => fact.kind === "scale")) return;
      clearTimeout(soon);
      soon = setTimeout(() => newest.current(), SETTLE_MS);
    });
    return () => {
      end();
      clearTimeout(soon);
    };
  }, []);
}
