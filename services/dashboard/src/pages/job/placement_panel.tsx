import { useEffect, useMemo, useState } from "preact/hooks";
import { store } from "../../live/store";
import { Panel } from "../../ui";
import type { JobView } from "../../wire";
import { counted, TERMINAL } from "../jobs/words";
import { type Cell, type PlacedNode, placementOf } from "./placement";

const NODES_SHOWN_MAX = 64;
const LEAST_MS = 500; // neighbours change often; the picture need not

/** The nodes of the job with the GPUs that it holds, and what others hold beside it. */
export function PlacementPanel({ job }: { job: JobView }) {
  const version = useNodesVersion(job);
  const [isWhole, setIsWhole] = useState(false);
  const isOver = TERMINAL.has(job.phase);
  const racks = useMemo(
    () => placementOf(job, store.nodes, isOver ? new Map() : store.jobs), // whoever is there now is no neighbour of what has ended
    [job, version],
  );
  const count = racks.reduce((sum, rack) => sum + rack.nodes.length, 0);
  let room = isWhole ? count : NODES_SHOWN_MAX;
  const spread = racks.length > 1 ? ` in ${counted(racks.length, racks[0]?.level || "group")}` : "";
  return (
    <Panel title={isOver ? "Where it ran" : "Placement"} note={`${counted(count, "node")}${spread}`}>
      <div class="places">
        {racks.map((rack) => {
          const nodes = rack.nodes.slice(0, Math.max(0, room));
          room -= nodes.length;
          return nodes.length ? (
            <div key={rack.name} class="rack">
              {rack.name && <p class="rack-name">{`${rack.level} ${rack.name}`}</p>}
              <ul>
                {nodes.map((node) => (
                  <NodeCells key={node.name} node={node} hasGpus={job.gpu_milli > 0} />
                ))}
              </ul>
            </div>
          ) : null;
        })}
      </div>
      {count > NODES_SHOWN_MAX && !isWhole && (
        <button type="button" class="button" onClick={() => setIsWhole(true)}>
          All {counted(count, "node")}
        </button>
      )}
      {!isOver && job.gpu_milli > 0 && (
        <p class="places-legend">
          <i class="cell cell-mine" /> this job <i class="cell cell-others" /> others <i class="cell" /> free
        </p>
      )}
    </Panel>
  );
}

function NodeCells({ node, hasGpus }: { node: PlacedNode; hasGpus: boolean }) {
  const mine = node.cells.filter((cell) => cell.mineMilli > 0).length;
  const told =
    hasGpus && node.cells.length ? `${mine} of ${node.cells.length} GPUs` : counted(node.replicas, "replica");
  const state = { "": "", lost: "lost", withheld: "out of service", unknown: "no longer in the fleet" }[node.state];
  return (
    <li class="place">
      <a href={`/fleet?node=${encodeURIComponent(node.name)}`} class="mono">
        {node.name}
      </a>
      <span class="cells" role="img" aria-label={`${node.name}: ${told}`}>
        {(hasGpus ? node.cells : []).map((cell) => (
          <CellBox key={cell.index} cell={cell} isByCount={node.isByCount} />
        ))}
      </span>
      <span class="muted">{state ? <span title={node.reason}>{state}</span> : told}</span>
    </li>
  );
}

function CellBox({ cell, isByCount }: { cell: Cell; isByCount: boolean }) {
  const name = isByCount ? "A GPU chosen by the kubelet" : `GPU ${cell.index}`;
  const words = cell.mineMilli
    ? `${name}: replica ${cell.replicas.join(", ")}${cell.mineMilli < 1000 ? `, ${cell.mineMilli / 1000} of it` : ""}`
    : `${name}: ${cell.othersMilli ? "others" : "free"}`;
  if (cell.mineMilli >= 1_000) return <i class="cell cell-mine" title={words} />;
  return (
    <i class={`cell ${cell.mineMilli ? "" : cell.othersMilli ? "cell-others" : ""}`} title={words}>
      {cell.mineMilli > 0 && <b style={{ height: `${cell.mineMilli / 10}%` }} />}
    </i>
  );
}

/** Steps when one of the job's nodes changed, at most so often. */
function useNodesVersion(job: JobView): number {
  const [version, setVersion] = useState(0);
  useEffect(() => {
    let dueAt = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const step = () => {
      timer = undefined;
      dueAt = performance.now() + LEAST_MS;
      setVersion((old) => old + 1);
    };
    const end = store.subscribe((changes) => {
      if (!changes.reset && !job.nodes.some((node) => changes.nodes.has(node))) return;
      timer ??= setTimeout(step, Math.max(0, dueAt - performance.now()));
    });
    return () => {
      end();
      clearTimeout(timer);
    };
  }, [job.nodes.join(" ")]);
  return version;
}
