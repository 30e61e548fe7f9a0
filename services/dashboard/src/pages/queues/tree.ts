/** The queues as a tree, and the words for their amounts: the same rows as `muster queues` prints. Pure. */

import type { QueueView } from "../../wire";

export const GPU = "gpu_milli";
const MILLI = 1_000;
const MIB_PER_GIB = 1_024;

/** running, waiting: jobs of the queue and of those below it, as what is held is. */
export interface QueueNode {
  readonly queue: QueueView;
  readonly depth: number;
  readonly children: readonly string[];
  readonly running: number;
  readonly waiting: number;
}

/** Each after the one above it, siblings by name. Without its parent, a queue stands at the top. */
export function treeOf(queues: Iterable<QueueView>): readonly QueueNode[] {
  const known = new Map([...queues].map((queue) => [queue.name, queue]));
  const below = new Map<string, string[]>();
  for (const name of [...known.keys()].sort()) {
    const parent = known.get(name)?.parent;
    const above = parent && known.has(parent) ? parent : "";
    below.set(above, [...(below.get(above) ?? []), name]);
  }
  const found: QueueNode[] = [];
  const visit = (name: string, depth: number): { running: number; waiting: number } => {
    const queue = known.get(name);
    if (!queue) return { running: 0, waiting: 0 };
    const place = found.length;
    const children = below.get(name) ?? [];
    let [running, waiting] = [queue.jobs_running, queue.jobs_queued];
    found.push({ queue, depth, children, running, waiting });
    for (const child of children) {
      const sums = visit(child, depth + 1);
      [running, waiting] = [running + sums.running, waiting + sums.waiting];
    }
    found[place] = { queue, depth, children, running, waiting };
    return { running, waiting };
  };
  for (const name of below.get("") ?? []) visit(name, 0);
  return found;
}

/** Nodes without those below a folded queue. */
export function unfolded(tree: readonly QueueNode[], folded: ReadonlySet<string>): readonly QueueNode[] {
  let under = Number.POSITIVE_INFINITY;
  return tree.filter((node) => {
    if (node.depth > under) return false;
    under = folded.has(node.queue.name) ? node.depth : Number.POSITIVE_INFINITY;
    return true;
  });
}

/** The queue and all below it, by name. */
export function subtreeOf(tree: readonly QueueNode[], name: string): ReadonlySet<string> {
  const start = tree.findIndex((node) => node.queue.name === name);
  const names = new Set<string>();
  for (let index = start; index >= 0 && index < tree.length; index += 1) {
    const node = tree[index] as QueueNode;
    if (index > start && node.depth <= (tree[start] as QueueNode).depth) break;
    names.add(node.queue.name);
  }
  return names;
}

/** Resources that some queue is promised, limited in, or holds, GPUs first. */
export function resourcesOf(queues: Iterable<QueueView>): readonly string[] {
  const found = new Set<string>();
  for (const queue of queues) {
    for (const amounts of [queue.quota, queue.borrowing_limit, queue.held]) {
      for (const resource of Object.keys(amounts)) found.add(resource);
    }
  }
  found.delete(GPU);
  return [GPU, ...[...found].sort()];
}

/** What the queue was promised of a resource; null if it says nothing of it. The first form of a quota counts, too. */
export function quotaOf(queue: QueueView, resource: string): number | null {
  return queue.quota[resource] ?? (resource === GPU ? queue.gpu_milli_quota : null) ?? null;
}

/** How much more it may have; null: as much as there is. */
export function borrowingLimitOf(queue: QueueView, resource: string): number | null {
  const named = queue.borrowing_limit[resource];
  if (named !== undefined) return named;
  if (resource !== GPU || queue.gpu_milli_limit === null) return null;
  return Math.max(0, queue.gpu_milli_limit - (quotaOf(queue, GPU) ?? 0));
}

/** How much its jobs and those of the queues below it hold. */
export function heldOf(queue: QueueView, resource: string): number {
  return queue.held[resource] ?? (resource === GPU ? queue.gpu_milli_held : 0);
}

/** `GPU`, `H100`, `CPU cores`, `memory`. */
export function resourceName(resource: string): string {
  const [base, model] = resource.split(":");
  if (model) return model;
  return base === GPU ? "GPUs" : base === "cpu_milli" ? "CPU cores" : base === "memory_mib" ? "memory, GiB" : resource;
}

/** `8 GPUs`, `2 H100`, `64 CPU cores`, `512 GiB of memory`. */
export function amountOf(resource: string, value: number): string {
  return resource === "memory_mib"
    ? `${Math.round((value / MIB_PER_GIB) * 10) / 10} GiB of memory`
    : `${amount(resource, value)} ${resourceName(resource)}`;
}

/** An amount of the wire in the unit of `resourceName`, without one; `-` for no bound. */
export function amount(resource: string, value: number | null): string {
  if (value === null) return "-";
  const unit = resource === "memory_mib" ? MIB_PER_GIB : MILLI;
  return `${Math.round((value / unit) * 1_000) / 1_000}`;
}
