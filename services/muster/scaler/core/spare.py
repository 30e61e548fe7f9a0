"""Devices that may be taken away: which ones are idle, what protects them, and how many may go in one decision.

Three rules bound how often a device comes and goes. A device that was attached stays for `gpu_idle_s`, so it makes
at most one round trip in that time. What was taken is taken from nobody: neither a hold nor a job that waits. And a
group from which something could not be taken, or to which a node could not be added, is left alone for a while.

The warm reserve, so many idle GPUs of a group, is a floor under what goes back to the pool. It is not filled by
attaching, and a job that waits gets of it what it needs, also on another node. A device that moves is detached where it
is idle and attached where it is needed, by one decision; those of nodes that hold nothing go first, and of these the
ones with the fewest GPUs: so idleness gathers on whole nodes, which then go.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from muster.core import Instant, after, seconds_between
from muster.core.settings import GroupSettings
from muster.placement import DEVICE_MILLI
from muster.placement.state import allows
from muster.scaler.core.choices import REMOVE_NODE
from muster.scaler.core.jobs import PendingQueue
from muster.scaler.core.limits import DONORS_MAX, EVER_ASKS_MAX
from muster.scaler.core.state import State
from muster.schemas.devices import GPU, AttachmentPhase, Origin


class Claims:
    """What waiting jobs could use where it stands; found out at most once in a decision, and only if it is asked for.

    A shape that was refused everything and would not fit on this fleet with nothing held claims nothing: else one
    job that is too large would keep all idle devices from going back.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._found: list[PendingQueue] | None = None
        self._of_model: dict[str, str] = {}

    def on_model(self, model: str) -> str:
        """The first job that could use a GPU of this model; "" if there is none."""
        if model not in self._of_model:
            claims = (
                queue.jobs[0][2]
                for queue in self._claiming()
                for group in queue.shape.least.groups
                if (group.shape.holds_devices or group.shape.full_node) and allows(group.shape, model)
            )
            self._of_model[model] = next(claims, "")
        return self._of_model[model]

    def on_nodes(self) -> str:
        """The first job that could use a node, with or without GPUs; "" if none waits."""
        queues = self._claiming()
        return queues[0].jobs[0][2] if queues else ""

    def _claiming(self) -> list[PendingQueue]:
        if self._found is None:
            self._found, asks = [], 0
            for entry, queue in self._state.demand.in_order():
                is_refused = entry[2] in self._state.refused and asks < EVER_ASKS_MAX
                asks += is_refused
                if not is_refused or self._state.fleet.could_ever_fit(queue.shape.least) is None:
                    self._found.append(queue)
        return self._found


def has_settled(state: State, uuid: str, now: Instant) -> bool:
    """Whether a device may leave where it was attached: it has been there, idle or not, for its time."""
    return uuid in state.idle.devices.elapsed(now) or settled_at(state, uuid) <= now


def settled_at(state: State, uuid: str) -> Instant:
    """When a device has been where it is attached for its time."""
    attachment = state.attachments.of_device.get(uuid)
    return Instant(0) if attachment is None else after(Instant(attachment.since), state.config.settings.gpu_idle_s)


def next_settled(state: State, now: Instant) -> Instant | None:
    """When the next device may leave that has been idle for long enough but came a moment ago."""
    resting = set(state.idle.rested.elapsed(now)) - set(state.idle.devices.elapsed(now))
    moments = [moment for uuid in resting if (moment := settled_at(state, uuid)) > now]
    return min(moments, default=None)


def gpus_backoff_until(state: State, group: GroupSettings, fabric: str) -> Instant:
    """Until when no GPU of the group is taken: something failed there, or its fabric takes no calls."""
    closed = state.pool.closed_until.get(fabric, Instant(0))
    return max(closed, state.rests_until(removals_of(group.name)), state.rests_until(f"fabric/{fabric}"))


def nodes_backoff_until(state: State, group: GroupSettings) -> Instant:
    """Until when no node of the group is taken: one was added, or something failed there, a moment ago."""
    added = state.moved_at.get(group.name)
    settled = Instant(0) if added is None else after(added, state.config.settings.delay_after_add_s)
    return max(settled, state.rests_until(removals_of(group.name)))


def removals_of(group: str) -> str:
    """Under which name failures of removals count: they say nothing about adding a node."""
    return f"removal/{group}"


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
            self._idle[group.name] = beyond(group, idle)
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


def beyond(group: GroupSettings, idle: int) -> int:
    """How many of a group's idle GPUs are beyond its reserve."""
    return max(0, idle - group.warm_gpus)


def donors(state: State) -> list[str]:
    """Devices, by uuid, that may be moved, the first to be taken first.

    Any of them together leave each node its least; of the warm reserve they take, because a job that waits is what it
    is kept for. Never one that is held, kept for somebody, on its way, or that was attached a moment ago. The state
    must be settled.
    """
    budget, found = Budget(state), list[Spare]()
    for name, group in state.config.groups.items():
        if not group.composable or state.now < gpus_backoff_until(state, group, group.fabric):
            continue
        able = [
            one
            for uuid in state.idle.idle_in[name]
            if budget.gpus_left(group, state.idle.node_of[uuid]) > 0
            and (one := spare(state, uuid)) is not None
            and has_settled(state, uuid, state.now)
        ]
        found.extend(budget.allowed(group, emptiest_first(state, able), below_reserve=True))
    return [one.uuid for one in emptiest_first(state, found)[:DONORS_MAX]]


def emptiest_first(state: State, devices: Iterable[Spare]) -> list[Spare]:
    """Those of nodes that hold nothing, then of those with the fewest GPUs, the longest idle first."""

    def rank(one: Spare) -> tuple[bool, int, str, Instant, str]:
        record, node = state.nodes[one.node], state.nodes.description(one.node)
        return bool(record.jobs), len(node.present) if node is not None else 0, one.node, one.since, one.uuid

    return sorted(devices, key=rank)
