import { useMemo } from "preact/hooks";
import { store } from "../../live/store";
import { type Fetched, useFetched } from "../../ui";
import type { NodeView, QueueView } from "../../wire";
import { GPU } from "./tree";

const SHARES_EVERY_MS = 5_000;

/** The live rows of queues, with the shares that the scheduler told last. */
export function useQueues(): { queues: readonly QueueView[]; shares: Fetched<{ queues: QueueView[] }> } {
  const shares = useFetched<{ queues: QueueView[] }>("/v1/queues?shares=true", { everyMs: SHARES_EVERY_MS });
  const version = store.version.queues.value;
  const queues = useMemo(() => {
    const told = new Map((shares.value?.queues ?? []).map((queue) => [queue.name, queue]));
    const live = [...store.queues.values()];
    return (live.length ? live : [...told.values()]).map((queue) => {
      const known = told.get(queue.name);
      return known ? { ...queue, share: known.share, used_share: known.used_share } : queue;
    });
  }, [version, shares.value]);
  return { queues, shares };
}

/** All that the fleet has of a resource, in the wire's unit; nodes that are lost have nothing. */
export function capacityOf(nodes: Iterable<NodeView>, resource: string): number {
  const [base, model] = resource.split(":");
  let sum = 0;
  for (const node of nodes) {
    if (node.lost || (model && node.gpu_model !== model)) continue;
    sum += base === GPU ? node.gpus * 1_000 : base === "cpu_milli" ? node.cpu_milli : node.memory_mib;
  }
  return sum;
}
