import { Answered, ClusterChoice, format, Page, Pairs, Panel, useCluster, useFetched, useQueryParams } from "../../ui";
import type { ConditionsAnswer } from "../../wire";
import { Brake } from "./brake";
import { NodePanel } from "./node_panel";
import { Picture } from "./picture";
import "./style.css";
import { Conditions, Counts, Ended } from "./tables";

const EVERY_MS = 5_000;

/** What is not healthy and why, problems over time, and whether health acts by itself. */
export default function Health() {
  const { cluster, asked } = useCluster();
  const fetched = useFetched<ConditionsAnswer>(asked("/v1/conditions"), { everyMs: EVERY_MS });
  const [{ node }, setParams] = useQueryParams({ node: "" });
  return (
    <Page title="Health" note={fetched.value && noteOf(fetched.value)} actions={<ClusterChoice clears={["node"]} />}>
      <Answered of={fetched} what="Loading the health of the fleet">
        {(answer) => (
          <div class="health">
            {answer.dry_run && (
              <p class="note note-warn">Dry run: faults are detected and reported, but no action is taken.</p>
            )}
            <div class="health-two">
              <Brake brake={answer.brake} onChange={fetched.again} />
              <Panel title="Now">
                <Sums answer={answer} />
              </Panel>
            </div>
            <div class={node ? "health-two health-wide" : ""}>
              <Panel title="Not healthy" flush>
                <Conditions
                  conditions={answer.conditions}
                  chosen={node}
                  onChoose={(chosen) => setParams({ node: chosen === node ? "" : chosen })}
                />
              </Panel>
              {node && <NodePanel key={`${cluster} ${node}`} node={node} onChange={fetched.again} />}
            </div>
            <Panel title="Problems over time">
              <Picture answer={answer} />
            </Panel>
            <div class="health-two health-wide">
              <Panel title="Healthy again" note="newest first" flush>
                <Ended ended={answer.ended} />
              </Panel>
              <Panel title="Faults by code" note="since the current leader of health started" flush>
                <Counts counts={answer.counts} />
              </Panel>
            </div>
          </div>
        )}
      </Answered>
    </Page>
  );
}

function noteOf({ conditions, nodes, at }: ConditionsAnswer): string {
  const ill = conditions.filter((one) => one.phase !== "healthy");
  const inAll = `of ${format.many(nodes, "node")}`;
  return `${ill.length ? `${format.count(new Set(ill.map((one) => one.node)).size)}` : "none"} ${inAll} not healthy, ${format.instant(at)}`;
}

function Sums({ answer }: { answer: ConditionsAnswer }) {
  const ill = answer.conditions.filter((one) => one.phase !== "healthy");
  const many = (phase: string): string => format.count(ill.filter((one) => one.phase === phase).length);
  return (
    <Pairs
      pairs={[
        ["Nodes not healthy", format.count(ill.filter((one) => one.kind === "node").length)],
        ["GPUs not healthy", format.count(ill.filter((one) => one.kind !== "node").length)],
        ["Need a person", format.count(ill.filter((one) => one.needs_person).length)],
        ["Suspect", many("suspect")],
        ["Quarantined", many("quarantined")],
        ["Repairing", many("repairing")],
        ["Verifying", many("verifying")],
      ]}
    />
  );
}
