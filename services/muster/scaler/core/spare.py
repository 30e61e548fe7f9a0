"""Devices that nobody holds and nothing is kept on, and how many of them may be taken in one decision."""

from collections.abc import Iterator
from dataclasses import dataclass

from muster.core import Instant, seconds_between
from muster.core.settings import GroupSettings
from muster.placement import DEVICE_MILLI
from muster.scaler.core import warm
from muster.scaler.core.choices import REMOVE_NODE
from muster.scaler.core.state import State
from muster.schemas.devices import GPU, AttachmentPhase, Origin

FREE_TO_TAKE = frozenset({Origin.SCALER, Origin.FOUND})
"""Attachments that the scaler may end: its own, and those that stood there when the fabric was first seen."""


@dataclass(frozen=True, slots=True)
class Spare:
    """An idle device of a composable node that can be taken away. index: its place on the node."""

    uuid: str
    node: str
    index: int
    model: str
    group: str
    fabric: str
    since: Instant

    def idle_s(self, now: Instant) -> float:
        """How long it has been idle."""
        return seconds_between(self.since, now)


def is_idle(state: State, uuid: str) -> bool:
    """Whether a device may be used, and nobody holds it or has it kept, nor will soon. The state must be settled."""
    name = state.idle.node_of.get(uuid)
    record = state.nodes.get(name) if name is not None else None
    if name is None or record is None or record.description is None or not record.usable:
        return False
    if uuid in state.grants.devices or uuid in state.choices.of_device:
        return False
    node, index = state.fleet.ledger.nodes.get(name), record.description.gpu_uuids.index(uuid)
    if node is None or node.idle[index] != DEVICE_MILLI:
        return False
    model = state.config.model(record.description.gpu_model)
    return not state.bookings.keeps_device(name, index, state.now, model.detach_s + model.attach_s)


def spare(state: State, uuid: str) -> Spare | None:
    """The device as one that can be taken away now; None if it cannot.

    What somebody asked for by a request of their own is theirs to give back, used or not.
    """
    attachment = state.attachments.of_device.get(uuid)
    if (
        attachment is None
        or attachment.requested.origin not in FREE_TO_TAKE
        or attachment.phase is not AttachmentPhase.ONLINE
    ):
        return None
    if not is_idle(state, uuid):
        return None
    name = state.idle.node_of[uuid]
    node, group = state.nodes.description(name), state.group_of(name)
    if node is None or group is None or not group.composable:
        return None
    index, since = node.gpu_uuids.index(uuid), state.idle.devices.since[uuid]
    return Spare(uuid, name, index, attachment.requested.model, group.name, attachment.requested.fabric, since)


def spares_on(state: State, node: str) -> list[Spare]:
    """Those of one node, by index."""
    found = [one for uuid in state.idle.on.get(node, ()) if (one := spare(state, uuid)) is not None]
    return sorted(found, key=lambda one: one.index)


def bound_to(state: State, node: str) -> str:
    """Why a node must stay: for a device on it or on its way there, or for a reservation; "" if nothing needs it."""
    for attachment in state.attachments.on.get(node, {}).values():
        if attachment.requested.type != GPU:
            return f"{attachment.requested.model} ({attachment.requested.type}) is attached to it"
        if attachment.requested.origin not in FREE_TO_TAKE:
            return f"{attachment.requested.request or attachment.id} asked for devices on it"
    group = state.group_of(node)
    reservation = state.bookings.keeping(node, state.now, group.round_trip_s) if group is not None else ""
    return f"reservation {reservation} keeps it" if reservation else ""


class Budget:
    """What may still go in one decision, so that what is chosen together keeps every limit together."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._idle: dict[str, int] = {}
        self._nodes: dict[str, int] = {}
        self._on: dict[str, int] = {}

    def idle_left(self, group: GroupSettings) -> int:
        """Idle GPUs that the group can lose and keep its warm reserve."""
        if group.name not in self._idle:
            held_by_none = self._state.idle.idle_in[group.name]
            idle = len(
                held_by_none
            )  # without a reserve, or with too few for it, it does not matter which of them count
            if idle > group.warm_gpus > 0:
                idle = sum(is_idle(self._state, uuid) for uuid in held_by_none)
            self._idle[group.name] = warm.beyond(group, idle)
        return self._idle[group.name]

    def gpus_left(self, group: GroupSettings, node: str) -> int:
        """GPUs that the node can lose and keep its least."""
        if node not in self._on:
            description, going = self._state.nodes.description(node), self._state.choices.of_device
            there = 0
            if description is not None and len(description.gpu_uuids) > group.gpus_min:  # else it has none to lose
                there = sum(uuid not in going for uuid in description.present.values())
            self._on[node] = there - group.gpus_min
        return self._on[node]

    def nodes_left(self, group: GroupSettings) -> int:
        """Nodes that the group can lose and keep its least."""
        if group.name not in self._nodes:
            names = self._state.node_groups.nodes_in(group.name)
            leaving = sum(
                choice.name == REMOVE_NODE and choice.chosen.node in names
                for choice in self._state.choices.open.values()
            )
            self._nodes[group.name] = len(names) - leaving - group.nodes_min
        return self._nodes[group.name]

    def take_gpus(self, group: GroupSettings, node: str, count: int) -> None:
        """So many are taken from a node of the group."""
        self._idle[group.name] = self.idle_left(group) - count
        self._on[node] = self.gpus_left(group, node) - count

    def take_node(self, group: GroupSettings, idle: int) -> None:
        """A node is taken, with so many idle GPUs of its own."""
        self._nodes[group.name] = self.nodes_left(group) - 1
        self._idle[group.name] = self.idle_left(group) - idle

    def allowed(
        self, group: GroupSettings, found: list[Spare], *, below_least: bool = False, below_reserve: bool = False
    ) -> Iterator[Spare]:
        """Of spare devices, in their order, those that may go.

        below_least: their nodes go, too. below_reserve: a job needs them elsewhere, for which the reserve is there.
        """
        left, on = len(found) if below_reserve else self.idle_left(group), dict[str, int]()
        for one in found:
            of_node = on.setdefault(one.node, self.gpus_left(group, one.node))
            if left > 0 and (below_least or of_node > 0):
                left, on[one.node] = left - 1, of_node - 1
                yield one
