import { useState } from "preact/hooks";
import type { Figures } from "./figures";
import { Legend, QueueBar } from "./queue_bar";
import { amount, type QueueNode, unfolded } from "./tree";

interface QueueTreeProps {
  tree: readonly QueueNode[];
  figures: ReadonlyMap<string, Figures>;
  resource: string;
  scale: number;
  chosen: string;
  onChoose: (name: string) => void;
}

/** The tree of queues, a bar for each. Who waits in one is shown when it is chosen. */
export function QueueTree({ tree, figures, resource, scale, chosen, onChoose }: QueueTreeProps) {
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set());
  const fold = (name: string) => {
    const next = new Set(folded);
    if (!next.delete(name)) next.add(name);
    setFolded(next);
  };
  return (
    <div class="qtree-scroll">
      <table class="table qtree">
        <thead>
          <tr>
            <th scope="col">Queue</th>
            <th scope="col" class="qtree-bar">
              Held and promised
            </th>
            <th scope="col" class="right">
              Held / quota
            </th>
            <th scope="col" class="right qshares" title="Borrowed share of the lendable resources, divided by weight">
              Share
            </th>
            <th scope="col" class="right qshares" title="The same for past use, with decay">
              Recent
            </th>
            <th scope="col" class="right">
              Running
            </th>
            <th scope="col" class="right">
              Waiting
            </th>
          </tr>
        </thead>
        <tbody>
          {unfolded(tree, folded).map((node) => (
            <QueueRow
              key={node.queue.name}
              node={node}
              figures={figures.get(node.queue.name)}
              resource={resource}
              scale={scale}
              isChosen={chosen === node.queue.name}
              isFolded={folded.has(node.queue.name)}
              onFold={() => fold(node.queue.name)}
              onChoose={() => onChoose(chosen === node.queue.name ? "" : node.queue.name)}
            />
          ))}
        </tbody>
      </table>
      <Legend />
    </div>
  );
}

interface QueueRowProps {
  node: QueueNode;
  figures: Figures | undefined;
  resource: string;
  scale: number;
  isChosen: boolean;
  isFolded: boolean;
  onFold: () => void;
  onChoose: () => void;
}

function QueueRow({ node, figures, resource, scale, isChosen, isFolded, onFold, onChoose }: QueueRowProps) {
  const { queue, depth, children, running, waiting } = node;
  return (
    <tr
      class={`opens ${isChosen ? "selected" : ""}`}
      data-queue={queue.name}
      onClick={(event) => {
        if (!(event.target as Element).closest("button, a")) onChoose();
      }}
    >
      <td>
        <span class="qname" style={{ paddingLeft: `${depth * 18}px` }}>
          {children.length ? (
            <button
              type="button"
              class="qfold"
              aria-expanded={!isFolded}
              aria-label={`Queues below ${queue.name}`}
              onClick={onFold}
            >
              <span class="group-caret" />
            </button>
          ) : (
            <span class="qfold" />
          )}
          <button type="button" class="qopen" aria-pressed={isChosen} onClick={onChoose}>
            {queue.name}
          </button>
          {queue.closed && <small class="muted">closed</small>}
        </span>
        {figures && (
          <small class="qheld" style={{ paddingLeft: `${depth * 18 + 28}px` }}>
            {amount(resource, figures.held)} / {amount(resource, figures.nominal)}
          </small>
        )}
      </td>
      <td class="qtree-bar">
        {figures && <QueueBar name={queue.name} figures={figures} resource={resource} scale={scale} />}
      </td>
      <td class="right">
        {figures ? amount(resource, figures.held) : "–"}
        <span class="muted"> / {figures ? amount(resource, figures.nominal) : "–"}</span>
      </td>
      <td class="right qshares">{queue.share.toFixed(2)}</td>
      <td class="right qshares muted">{queue.used_share.toFixed(2)}</td>
      <td class="right">{running.toLocaleString("en-GB")}</td>
      <td class={`right ${waiting ? "qwaits" : ""}`}>{waiting.toLocaleString("en-GB")}</td>
    </tr>
  );
}
