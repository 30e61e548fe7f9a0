/**
 * What each queue has of one resource: promised, held, borrowed, lent, and what would be fair. Pure.
 *
 * The definitions are those of docs/concepts/scheduling.md, which are the cohorts' of Kueue. What is borrowed from nobody
 * in particular is shown as lent by all that could lend it, in proportion.
 */

import type { QueueView } from "../../wire";
import { borrowingLimitOf, heldOf, type QueueNode, quotaOf } from "./tree";

/**
 * nominal: promised to it and those below it; null in a tree that does not count the resource. borrowed: of what it
 * holds. lent: of its promise, in the hands of others. limit: the most it may hold, null without one. reach: the most it
 * could hold if nobody else wanted anything. fair: what it would have if all that want more shared by weight what others
 * leave; null while it wants no more than it has.
 */
export interface Figures {
  readonly nominal: number | null;
  readonly held: number;
  readonly borrowed: number;
  readonly lent: number;
  readonly limit: number | null;
  readonly reach: number;
  readonly fair: number | null;
}

/** Of one queue while it is worked out. quota: of itself alone. subtree, local, usage: as in the formulas. */
interface Work {
  readonly node: QueueNode;
  readonly queue: QueueView;
  readonly quota: number;
  readonly subtree: number;
  readonly local: number;
  readonly usage: number;
  readonly nominal: number;
  readonly held: number;
  readonly children: readonly Work[];
}

/** capacity: all that the fleet has of the resource, in the wire's unit. */
export function figuresOf(
  tree: readonly QueueNode[],
  resource: string,
  capacity: number,
): ReadonlyMap<string, Figures> {
  const nodes = new Map(tree.map((node) => [node.queue.name, node]));
  const roots = tree.filter((node) => node.depth === 0).map((node) => work(node, nodes, resource));
  const found = new Map<string, Figures>();
  const counted = roots.filter((root) => isCounted(root, resource));
  const open = roots.filter((root) => !isCounted(root, resource));
  for (const root of counted) {
    const fair = fairShares([root], root.nominal, resource);
    walk(root, { resource, found, fair: fair.get(root) ?? null, lent: 0, above: root.subtree, isCounted: true });
  }
  const left = Math.max(0, capacity - sum(counted, (root) => root.held));
  const fair = fairShares(open, left, resource);
  for (const root of open) {
    walk(root, { resource, found, fair: fair.get(root) ?? null, lent: 0, above: capacity, isCounted: false });
  }
  return found;
}

interface Walk {
  readonly resource: string;
  readonly found: Map<string, Figures>;
  readonly fair: number | null;
  readonly lent: number;
  readonly above: number;
  readonly isCounted: boolean;
}

function work(node: QueueNode, nodes: ReadonlyMap<string, QueueNode>, resource: string): Work {
  const { queue } = node;
  const children = node.children.flatMap((name) => {
    const child = nodes.get(name);
    return child ? [work(child, nodes, resource)] : [];
  });
  const quota = quotaOf(queue, resource) ?? 0;
  const held = heldOf(queue, resource);
  const own = held - sum(children, (child) => child.held);
  const subtree = quota + sum(children, (child) => child.subtree - child.local);
  const lending = queue.lending_limit[resource];
  const local = lending === undefined ? 0 : Math.max(0, subtree - lending);
  const usage = Math.max(0, own) + sum(children, (child) => Math.max(0, child.usage - child.local));
  const nominal = quota + sum(children, (child) => child.nominal);
  return { node, queue, quota, subtree, local, usage, nominal, held, children };
}

function isCounted(root: Work, resource: string): boolean {
  return quotaOf(root.queue, resource) !== null || root.children.some((child) => isCounted(child, resource));
}

function borrowedBy(one: Work): number {
  return Math.max(0, one.usage - one.subtree);
}

/** What it could give away: the part of its promise that may be lent and that nobody below it holds. */
function idleOf(one: Work): number {
  return Math.max(0, one.subtree - one.local - Math.max(0, one.usage - one.local));
}

function walk(one: Work, at: Walk): void {
  const limit = borrowingLimitOf(one.queue, at.resource);
  const lendable = Math.max(0, at.above - (one.subtree - one.local));
  const more = Math.min(lendable, limit ?? Number.POSITIVE_INFINITY);
  const reach = at.isCounted ? one.nominal + more : Math.min(at.above, limit ?? Number.POSITIVE_INFINITY);
  at.found.set(one.queue.name, {
    nominal: at.isCounted ? one.nominal : null,
    held: one.held,
    borrowed: at.isCounted ? Math.min(one.held, borrowedBy(one)) : 0,
    lent: at.lent,
    limit: limit === null ? null : at.isCounted ? one.nominal + limit : limit,
    reach: Math.max(reach, one.held),
    fair: at.fair,
  });
  const lent = lentByChildren(one, at);
  const fair = fairShares(one.children, at.fair ?? Math.max(one.held, one.nominal), at.resource);
  const above = at.isCounted ? Math.min(at.above, one.subtree + more) : Math.min(at.above, reach);
  for (const child of one.children) {
    walk(child, { ...at, fair: fair.get(child) ?? null, lent: lent.get(child) ?? 0, above });
  }
}

/** What is borrowed inside of this queue, or from it, comes from those that leave something, in proportion. */
function lentByChildren(one: Work, at: Walk): ReadonlyMap<Work, number> {
  if (!at.isCounted) return new Map();
  const own = Math.max(
    0,
    one.quota - Math.max(0, one.usage - sum(one.children, (child) => Math.max(0, child.usage - child.local))),
  );
  const supply = own + sum(one.children, idleOf);
  const wanted = sum(one.children, borrowedBy) + at.lent - borrowedBy(one);
  const part = supply > 0 ? Math.min(1, Math.max(0, wanted) / supply) : 0;
  return new Map(one.children.map((child) => [child, idleOf(child) * part]));
}

/** Among siblings that have `total`: who wants more gets its promise and, by weight, of what the others leave. */
function fairShares(siblings: readonly Work[], total: number, resource: string): ReadonlyMap<Work, number> {
  const wanting = siblings.filter((one) => one.node.waiting > 0 || one.held > one.nominal);
  const kept = sum(
    siblings.filter((one) => !wanting.includes(one)),
    (one) => Math.max(one.held, one.local),
  );
  const shares = new Map(wanting.map((one) => [one, one.nominal]));
  let pool = Math.max(0, total - kept - sum(wanting, (one) => one.nominal));
  let open: readonly Work[] = wanting;
  while (pool > 0 && open.length) {
    const weights = sum(open, (one) => one.queue.weight);
    const given = pool;
    for (const one of open) {
      const limit = borrowingLimitOf(one.queue, resource);
      const most = limit === null ? Number.POSITIVE_INFINITY : one.nominal + limit;
      const share = Math.min(most, (shares.get(one) ?? 0) + (given * one.queue.weight) / weights);
      pool -= share - (shares.get(one) ?? 0);
      shares.set(one, share);
    }
    const left = open.filter(
      (one) =>
        (shares.get(one) ?? 0) < one.nominal + (borrowingLimitOf(one.queue, resource) ?? Number.POSITIVE_INFINITY),
    );
    if (left.length === open.length) break;
    open = left;
  }
  return shares;
}

function sum<T>(items: readonly T[], of: (item: T) => number): number {
  return items.reduce((total, item) => total + of(item), 0);
}
