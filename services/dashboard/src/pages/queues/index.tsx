import { useMemo } from "preact/hooks";
import { store } from "../../live/store";
import { Broken, Empty, Page, Panel, useQueryParams, Waiting } from "../../ui";
import { counted } from "../jobs/words";
import { scaleOf } from "./bars";
import { figuresOf } from "./figures";
import { QueueDetails } from "./queue_details";
import { QueueTree } from "./queue_tree";
import { ReservationsPanel } from "./reservations_panel";
import { capacityOf, useQueues } from "./shares";
import "../jobs/style.css";
import "./style.css";
import { amount, GPU, resourceName, resourcesOf, treeOf } from "./tree";
import { WaitingPanel } from "./waiting_panel";

/** Who may have how much, who has it, who waits and why, and what is reserved. */
export default function Queues() {
  const [params, setParams] = useQueryParams({ queue: "", resource: GPU });
  const { queues, shares } = useQueues();
  const resources = useMemo(() => resourcesOf(queues), [queues]);
  const resource = resources.includes(params.resource) ? params.resource : GPU;
  const tree = useMemo(() => treeOf(queues), [queues]);
  const capacity = capacityOf(store.nodes.values(), resource);
  const figures = useMemo(() => figuresOf(tree, resource, capacity), [tree, resource, capacity]);
  const scale = useMemo(() => scaleOf(figures.values()), [figures]);
  const chosen = queues.find((queue) => queue.name === params.queue);
  const chosenFigures = chosen && figures.get(chosen.name);
  const roots = tree.filter((node) => node.depth === 0);
  const held = roots.reduce((sum, node) => sum + (figures.get(node.queue.name)?.held ?? 0), 0);
  const waits = roots.reduce((sum, node) => sum + node.waiting, 0);
  return (
    <Page
      title="Queues"
      note={
        queues.length
          ? `${amount(resource, held)} of ${amount(resource, capacity)} ${resourceName(resource)} held, ${counted(waits, "job")} waiting`
          : undefined
      }
      actions={
        resources.length > 1 && (
          <label class="filters-group">
            Bars of
            <select value={resource} onChange={(event) => setParams({ resource: event.currentTarget.value })}>
              {resources.map((one) => (
                <option key={one} value={one}>
                  {resourceName(one)}
                </option>
              ))}
            </select>
          </label>
        )
      }
    >
      <div class="queues-columns">
        <div class="job-main">
          <Panel flush>
            {queues.length ? (
              <QueueTree
                tree={tree}
                figures={figures}
                resource={resource}
                scale={scale}
                chosen={chosen?.name ?? ""}
                onChoose={(queue) => setParams({ queue })}
              />
            ) : shares.problem ? (
              <Broken problem={shares.problem} retry={shares.again} />
            ) : !store.filled.value && shares.value === undefined ? (
              <Waiting what="Loading the queues" />
            ) : (
              <Empty title="No queues yet">
                <code>muster queues set -f FILE</code> makes them; a job needs one to wait in.
              </Empty>
            )}
          </Panel>
          {params.queue && queues.length > 0 && !chosen && (
            <p class="note note-warn">
              There is no queue {params.queue}: it was renamed or removed, or its name is misspelled.
            </p>
          )}
          {chosen && chosenFigures && <QueueDetails queue={chosen} figures={chosenFigures} resource={resource} />}
          <ReservationsPanel />
        </div>
        <WaitingPanel tree={tree} chosen={chosen?.name ?? ""} />
      </div>
    </Page>
  );
}
