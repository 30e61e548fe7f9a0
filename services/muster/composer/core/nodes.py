"""Nodes as the agent shows them, and which of their devices the scheduler lets jobs use.

Mirrors the scheduler's rule: a node is released as a whole, with all that it shows; a device that it shows later, or
that was withheld, is released by itself.
"""

from dataclasses import dataclass, field

from muster.schemas.facts.node import GrantState, NodeJoined


@dataclass(slots=True)
class Node:
    """description: None while it is not part of the cluster. shown: index of each device by uuid.

    is_released, is_withheld: as the scheduler said of the node as a whole.
    """

    description: NodeJoined | None = None
    is_lost: bool = False
    is_released: bool = False
    is_withheld: bool = False
    shown: dict[str, int] = field(default_factory=dict)


class Nodes:
    """All nodes, by name.

    by_machine: which node stands on a machine, also one that left. node_of: of each device that is shown, by uuid.
    unreleased: devices that are not yet released though their node is.
    """

    def __init__(self) -> None:
        self.all: dict[str, Node] = {}
        self.by_machine: dict[str, str] = {}
        self.node_of: dict[str, str] = {}
        self.unreleased: set[str] = set()

    def get(self, name: str) -> Node | None:
        """A node that is part of the cluster."""
        node = self.all.get(name)
        return node if node is not None and node.description is not None else None

    def join(self, name: str, description: NodeJoined) -> list[str]:
        """The node is there, or is another; returns uuids that it shows now and did not before."""
        node = self.all.setdefault(name, Node())
        is_new = node.description is None
        if is_new or node.is_lost:
            node.is_lost = node.is_released = False
        shown = {uuid: index for index, uuid in description.present.items()}
        for uuid in node.shown.keys() - shown.keys():
            self._forget(name, uuid)
        added = [uuid for uuid in shown if uuid not in node.shown]
        for uuid in added:
            self.node_of[uuid] = name
            if node.is_released:
                self.unreleased.add(uuid)
        node.description, node.shown = description, shown
        if description.machine:
            self.by_machine[description.machine] = name
        return added

    def load(self, name: str, description: NodeJoined, *, is_lost: bool) -> None:
        """A node as a checkpoint says; its grants come beside, in any order."""
        node = self.all.setdefault(name, Node())
        node.description, node.is_lost = description, is_lost
        node.shown = {uuid: index for index, uuid in description.present.items()}
        for uuid in node.shown:
            self.node_of[uuid] = name
        if description.machine:
            self.by_machine[description.machine] = name

    def set_lost(self, name: str, *, is_lost: bool) -> bool:
        """It does not answer, or answers again: then it must be released anew. False if it is not there."""
        node = self.get(name)
        if node is None:
            return False
        node.is_lost, node.is_released = is_lost, False
        return True

    def leave(self, name: str) -> bool:
        """It is no longer part of the cluster; its machine is remembered. False if it was not there."""
        node = self.get(name)
        if node is None:
            return False
        for uuid in tuple(node.shown):
            self._forget(name, uuid)
        node.description, node.shown = None, {}
        node.is_lost = node.is_released = node.is_withheld = False
        return True

    def release_node(self, name: str) -> tuple[str, ...]:
        """Jobs may use it; returns what it shows."""
        node = self.all.setdefault(name, Node())
        node.is_released, node.is_withheld = True, False
        return tuple(node.shown)

    def withhold_node(self, name: str) -> None:
        """Jobs may use it no more, until it is released."""
        self.all.setdefault(name, Node()).is_withheld = True

    def release_device(self, uuid: str) -> None:
        """Jobs may use the device."""
        self.unreleased.discard(uuid)

    def withhold_device(self, uuid: str) -> None:
        """Jobs may use the device no more, until it is released."""
        self.unreleased.add(uuid)

    def load_grant(self, kind: str, name: str, state: GrantState) -> None:
        """As a checkpoint says."""
        if kind == "node":
            node = self.all.setdefault(name, Node())
            node.is_released, node.is_withheld = state.released, state.withheld
        elif state.released and not state.withheld:
            self.unreleased.discard(name)
        else:
            self.unreleased.add(name)

    def is_usable(self, uuid: str) -> bool:
        """Whether a node shows the device and jobs may use it."""
        name = self.node_of.get(uuid)
        if name is None or uuid in self.unreleased:
            return False
        return self.all[name].is_released and not self.all[name].is_withheld

    def _forget(self, name: str, uuid: str) -> None:
        if self.node_of.get(uuid) == name:
            del self.node_of[uuid]
            self.unreleased.discard(uuid)
