/** Which nodes stand together: clusters, blocks and racks, by what the nodes say of their domains. */

import type { NodeView } from "../../wire";

/** What is needed of a node to place it. */
export type Placed = Pick<NodeView, "name" | "cluster" | "domains" | "group" | "gpus">;

export interface Rack {
  key: string;
  label: string;
  /** Racks of one block follow each other; "" where nodes tell of none. */
  block: string;
  cluster: string;
  /** Indexes into the list of nodes. */
  first: number;
  nodes: number;
}

export interface Grouped<N extends Placed> {
  /** Ordered: the nodes of one rack follow each other. */
  nodes: N[];
  racks: Rack[];
}

/** Nodes of which nobody knows the rack stand in columns of so many. */
export const RACK_NODES_DEFAULT = 8;
/** A "rack" of more nodes than this is shown as several. */
export const RACK_NODES_MAX = 32;

const RACK = "rack";
const WIDER = ["block", "zone", "datacenter", "region", "row", "pod"];
const collator = new Intl.Collator("en", { numeric: true });

interface Place<N> {
  node: N;
  rack: string;
  block: string;
}

function placeOf<N extends Placed>(node: N): Place<N> {
  let rack = "";
  let block = "";
  for (const [level, name] of node.domains) {
    if (level === RACK) {
      rack = name;
    } else if (!block && WIDER.includes(level)) {
      block = name;
    }
  }
  return { node, rack, block: block || node.group };
}

const inOrder = <N extends Placed>(a: Place<N>, b: Place<N>): number =>
  collator.compare(a.node.cluster, b.node.cluster) ||
  Number(a.node.group === "") - Number(b.node.group === "") ||
  collator.compare(a.block, b.block) ||
  collator.compare(a.rack, b.rack) ||
  collator.compare(a.node.name, b.node.name);

/** Sorted as people count: b2 before b10; node groups first, since they are what grows and shrinks. */
export function group<N extends Placed>(nodes: Iterable<N>): Grouped<N> {
  const places = [...nodes].map(placeOf).sort(inOrder);
  const racks: Rack[] = [];
  let open: Rack | undefined;
  let openOf = "";
  places.forEach(({ node, rack, block }, at) => {
    const of = `${node.cluster}/${block}/${rack}`;
    const most = rack ? RACK_NODES_MAX : RACK_NODES_DEFAULT;
    if (!open || openOf !== of || open.nodes >= most) {
      open = { key: `${of}/${at}`, label: rack, block, cluster: node.cluster, first: at, nodes: 0 };
      openOf = of;
      racks.push(open);
    }
    open.nodes++;
  });
  return { nodes: places.map((place) => place.node), racks };
}
