"""Nodes as the agent shows them, and which of their devices the scheduler lets jobs use.

Mirrors the scheduler's rule: a node is released as a whole, with all that it shows; a device that it shows later, or
that was withheld, is released by itself.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from muster.composer.core.limits import MACHINES_LEFT_MAX
from muster.core import Instant, after
from muster.schemas.facts.fabric import MachineKnown
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

    by_machine: which node stands on a machine, also one that left or may come. left: machines of nodes that left, by
    fabric. young: where no call brought anything since their nodes joined first, and when that was, by fabric.
    node_of: of each device that is shown, by uuid.
    unreleased: devices that are not yet released though their node is.
    """

    def __init__(self, machines: Iterable[tuple[str, str]] = ()) -> None:
        self.all: dict[str, Node] = {}
        self.by_machine: dict[str, str] = dict(machines)
        self._configured = frozenset(self.by_machine)
        self.left: dict[str, dict[str, None]] = {}
        self.young: dict[str, dict[str, Instant]] = {}
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
        if node is None or node.description is None:
            return False
        for uuid in tuple(node.shown):
            self._forget(name, uuid)
        node.description, node.shown = None, {}
        node.is_lost = node.is_released = node.is_withheld = False
        return True

    # --- machines ------------------------------------------------------------------------------------------------

    def settle_in(self, machine: str, fabric: str, now: Instant, *, young_s: float) -> None:
        """A node joins there; call it before `join`. What was young for longer than that is young no more."""
        for moments in self.young.values():
            while moments and after(moments[oldest := next(iter(moments))], young_s) < now:
                del moments[oldest]
        self._unleave(machine)
        if machine and machine not in self.by_machine:
            self.young.setdefault(fabric, {})[machine] = now

    def abandon(self, machine: str, fabric: str) -> None:
        """Its node left."""
        self.grow_up(machine, fabric)
        if not machine or machine in self._configured:
            return
        left = self.left.setdefault(fabric, {})
        left[machine] = None
        if len(left) > MACHINES_LEFT_MAX:
            oldest = next(iter(left))
            del left[oldest], self.by_machine[oldest]

    def grow_up(self, machine: str, fabric: str) -> None:
        """A call may bring a device there: what comes from now on did not stand there before."""
        self.young.get(fabric, {}).pop(machine, None)

    def machines(self, fabric: str) -> Iterator[MachineKnown]:
        """What nodes do not tell of machines, for a checkpoint."""
        for machine in self.left.get(fabric, ()):
            yield MachineKnown(machine=machine, node=self.by_machine[machine])
        for machine, moment in self.young.get(fabric, {}).items():
            yield MachineKnown(machine=machine, node=self.by_machine[machine], joined_at=moment)

    def load_machines(self, fabric: str, machines: Iterable[MachineKnown]) -> None:
        """As a checkpoint says."""
        for known in machines:
            self.by_machine.setdefault(known.machine, known.node)
            if known.joined_at:
                self.young.setdefault(fabric, {})[known.machine] = Instant(known.joined_at)
            else:
                self.left.setdefault(fabric, {})[known.machine] = None

    def _unleave(self, machine: str) -> None:
        for left in self.left.values():
            left.pop(machine, None)

    # --- grants --------------------------------------------------------------------------------------------------

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
