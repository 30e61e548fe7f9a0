"""Which nodes and devices the scheduler lets jobs use.

Mirrors the scheduler's rule: a node is released as a whole, with all that it shows; a device that it shows later, or
that was withheld, is released by itself.
"""

from dataclasses import dataclass

from muster.cluster import NodeChange, Nodes
from muster.schemas.facts.node import GrantState


@dataclass(slots=True)
class NodeGrant:
    """What the scheduler said of a node as a whole."""

    is_released: bool = False
    is_withheld: bool = False


class Grants:
    """Grants of nodes and devices, also of nodes that left."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes: dict[str, NodeGrant] = {}
        """By name. For reading."""
        self.unreleased: set[str] = set()
        """UUIDs of devices that are not yet released though their node is. For reading."""
        self._shown = nodes

    def change_node(self, change: NodeChange) -> None:
        """A node joined, is described anew, was lost, returned or left; call it after `Nodes` folded that."""
        grant, before, after = self._node(change.name), change.before, change.after
        if before is None or after is None or before.is_lost or after.is_lost:
            grant.is_released = False
        if after is None:
            grant.is_withheld = False
        self.unreleased.difference_update(uuid for uuid in change.gone if uuid not in self._shown.node_of)
        if grant.is_released:
            self.unreleased.update(change.added)

    def release_node(self, name: str) -> None:
        """Jobs may use it."""
        grant = self._node(name)
        grant.is_released, grant.is_withheld = True, False

    def withhold_node(self, name: str) -> None:
        """Jobs may use it no more, until it is released."""
        self._node(name).is_withheld = True

    def release_device(self, uuid: str) -> None:
        """Jobs may use the device."""
        self.unreleased.discard(uuid)

    def withhold_device(self, uuid: str) -> None:
        """Jobs may use the device no more, until it is released."""
        self.unreleased.add(uuid)

    def load(self, kind: str, name: str, state: GrantState) -> None:
        """As a checkpoint says."""
        if kind == "node":
            self.nodes[name] = NodeGrant(state.released, state.withheld)
        elif state.released and not state.withheld:
            self.unreleased.discard(name)
        else:
            self.unreleased.add(name)

    def is_node_usable(self, name: str) -> bool:
        """Return whether jobs may use the node as a whole."""
        grant = self.nodes.get(name)
        return grant is not None and grant.is_released and not grant.is_withheld

    def is_device_usable(self, uuid: str) -> bool:
        """Return whether a node shows the device and jobs may use it."""
        node = self._shown.node_of.get(uuid)
        return node is not None and uuid not in self.unreleased and self.is_node_usable(node)

    def _node(self, name: str) -> NodeGrant:
        return self.nodes.setdefault(name, NodeGrant())
