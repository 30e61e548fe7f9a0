"""The nodes of a cluster, their descriptions and the devices that they show, folded from the cluster's log.

README.md has the table of facts and their effects.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from muster.core import Fact
from muster.schemas.facts.node import NodeJoined, NodeLeft, NodeLost, NodeReturned, NodeState


@dataclass(frozen=True, slots=True)
class Node:
    """A node that is part of the cluster."""

    description: NodeJoined
    """As last reported by the agent."""
    is_lost: bool = False
    """Whether the node does not answer."""

    @property
    def shown(self) -> dict[str, int]:
        """Index of each device that the node shows, by UUID."""
        return {uuid: index for index, uuid in self.description.present.items()}


@dataclass(frozen=True, slots=True)
class NodeChange:
    """How one fact changed a node."""

    name: str
    before: Node | None
    """None if it was not part of the cluster."""
    after: Node | None
    """None if it left."""

    @property
    def added(self) -> tuple[str, ...]:
        """UUIDs of devices that the node shows now and did not show before, in the order of their indexes."""
        return _shown_only_by(self.after, self.before)

    @property
    def gone(self) -> tuple[str, ...]:
        """UUIDs of devices that the node showed before and does not show now, in the order of their indexes."""
        return _shown_only_by(self.before, self.after)


class Nodes(Mapping[str, Node]):
    """The nodes that are part of a cluster, by name, folded from its log.

    A fact of a node that is not part of the cluster is counted in `anomalies` by its name, and changes nothing.
    """

    def __init__(self) -> None:
        self.node_of: dict[str, str] = {}
        """The node that shows a device, by UUID; of several, the one that began to show it last. Read-only."""
        self.anomalies: Counter[str] = Counter()
        self._nodes: dict[str, Node] = {}

    def apply(self, fact: Fact) -> NodeChange | None:
        """Fold one fact of the log or of a checkpoint. Return None if no node of the cluster is concerned."""
        if fact.kind != "node":
            return None
        name, before = fact.subject_id, self._nodes.get(fact.subject_id)
        match fact.payload:
            case NodeJoined() as description:
                change = NodeChange(name, before, Node(description))
            case NodeState(description=description, lost=is_lost):
                change = NodeChange(name, before, Node(description, is_lost))
            case NodeLost() | NodeReturned() if before is not None:
                change = NodeChange(name, before, Node(before.description, fact.name == "lost"))
            case NodeLeft() if before is not None:
                change = NodeChange(name, before, None)
            case NodeLost() | NodeReturned() | NodeLeft():
                self.anomalies[fact.name] += 1
                return None
            case _:
                return None
        self._take(change)
        return change

    # --- questions -----------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Node:
        return self._nodes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def description(self, name: str) -> NodeJoined | None:
        """Return a node's description; None if it is not part of the cluster."""
        node = self._nodes.get(name)
        return None if node is None else node.description

    # --- inside --------------------------------------------------------------------------------------------------

    def _take(self, change: NodeChange) -> None:
        for uuid in change.gone:
            if self.node_of.get(uuid) == change.name:
                del self.node_of[uuid]
        if change.after is None:
            del self._nodes[change.name]
            return
        self._nodes[change.name] = change.after
        self.node_of.update(dict.fromkeys(change.added, change.name))
        for uuid in change.after.shown:
            self.node_of.setdefault(uuid, change.name)


def _shown_only_by(node: Node | None, other: Node | None) -> tuple[str, ...]:
    if node is None:
        return ()
    elsewhere = other.shown if other is not None else {}
    return tuple(uuid for uuid in node.shown if uuid not in elsewhere)
