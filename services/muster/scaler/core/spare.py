"""Devices that may be taken away: which ones are idle, what protects them, and how many may go in one decision.

Three rules limit how often a device moves. An attached device stays for `gpu_idle_s`, so it makes at most one round
trip in that time. No device is taken from a job that holds it or waits for it. And a group from which something could
not be taken, or to which a node could not be added, is left alone for a time.

The warm reserve, a number of idle GPUs of a group, is a minimum that is not returned to the pool. It is not filled by
attaching, and waiting jobs may use it, also on another node. One decision detaches a moving device where it is idle and
attaches it where it is needed. Devices of nodes that hold nothing go first, and of these the ones with the fewest GPUs:
so idle devices concentrate on whole nodes, which are then removed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from muster.core import Instant, after, seconds_between
from muster.core.settings import GroupSettings
from muster.placement import DEVICE_MILLI, Fleet
from muster.placement.state import allows
from muster.scaler.core.capacity import Source
from muster.scaler.core.changes import Cooldowns
from muster.scaler.core.choices import REMOVE_NODE, Choices
from muster.scaler.core.cluster import Cluster
from muster.scaler.core.fabrics import Attachments
from muster.scaler.core.jobs import Demand, PendingQueue
from muster.scaler.core.limits import DONORS_MAX, EVER_ASKS_MAX
from muster.schemas.devices import GPU, AttachmentPhase, Origin
from muster.schemas.facts.scale import Refused


class Claims:
    """Idle capacity that waiting jobs could use; computed on demand, once per decision.

    A shape that was refused and would not fit on this fleet even if it were empty claims nothing: otherwise one job
    that is too large would keep all idle devices from going back.
    """

    def __init__(self, demand: Demand, refused: Mapping[str, Refused], fleet: Fleet) -> None:
        self._demand = demand
        self._refused = refused
        self._fleet = fleet
        self._found: list[PendingQueue] | None = None
        self._of_model: dict[str, str] = {}

    def on_model(self, model: str) -> str:
        """Return the first job that could use a GPU of this model; "" if there is none."""
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
        """Return the first job that could use a node, with or without GPUs; "" if none waits."""
        queues = self._claiming()
        return queues[0].jobs[0][2] if queues else ""

    def _claiming(self) -> list[PendingQueue]:
        if self._found is None:
            self._found, asks = [], 0
            for entry, queue in self._demand.in_order():
                is_refused = entry[2] in self._refused and asks < EVER_ASKS_MAX
                asks += is_refused
                if not is_refused or self._fleet.could_ever_fit(queue.shape.least) is None:
                    self._found.append(queue)
        return self._found


FREE_TO_TAKE = frozenset({Origin.SCALER, Origin.FOUND})
"""Origins of attachments that the scaler may end: its own, and devices that were present when first seen."""


@dataclass(frozen=True, slots=True)
class Spare:
    """An idle device of a composable node that can be taken away."""

    uuid: str
    node: str
    index: int
    """Its index among the devices of the node."""
    model: str
    group: str
    fabric: str
    since: Instant

    @property
    def source(self) -> Source:
        """The source that it would add to."""
        return Source(self.fabric, self.model)

    def idle_s(self, now: Instant) -> float:
        """Return how long it has been idle, in seconds."""
        return seconds_between(self.since, now)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SpareDevices:
    """Which devices may be taken away now. Changes on their way must be in the fleet (`FutureFleet.settle`)."""

    cluster: Cluster
    attachments: Attachments
    choices: Choices
    cooldowns: Cooldowns

    def is_idle(self, uuid: str, now: Instant) -> bool:
        """Return whether a device is usable, and neither held nor kept for a job or reservation now or soon."""
        cluster = self.cluster
        name = cluster.idle.node_of.get(uuid)
        record = cluster.nodes.get(name) if name is not None else None
        if name is None or record is None or record.description is None or not record.usable:
            return False
        if uuid in cluster.grants.devices or uuid in self.choices.of_device:
            return False
        node, index = cluster.fleet.ledger.nodes.get(name), record.description.gpu_uuids.index(uuid)
        if node is None or node.idle[index] != DEVICE_MILLI:
            return False
        model = self.cluster.config.model(record.description.gpu_model)
        return not cluster.bookings.keeps_device(name, index, now, model.detach_s + model.attach_s)

    def find(self, uuid: str, now: Instant) -> Spare | None:
        """Return the device if it can be taken away now; None if it cannot.

        A device that a user requested is not taken, used or not: its principal gives it back.
        """
        attachment = self.attachments.of_device.get(uuid)
        if (
            attachment is None
            or attachment.requested.origin not in FREE_TO_TAKE
            or attachment.phase is not AttachmentPhase.ONLINE
        ):
            return None
        if not self.is_idle(uuid, now):
            return None
        idle = self.cluster.idle
        name = idle.node_of[uuid]
        node, group = self.cluster.nodes.description(name), self.cluster.group_of(name)
        if node is None or group is None or not group.composable:
            return None
        index, since = node.gpu_uuids.index(uuid), idle.devices.since[uuid]
        return Spare(uuid, name, index, attachment.requested.model, group.name, attachment.requested.fabric, since)

    def on_node(self, node: str, now: Instant) -> list[Spare]:
        """Return the devices of one node that can be taken away, by index."""
        found = [one for uuid in self.cluster.idle.on.get(node, ()) if (one := self.find(uuid, now)) is not None]
        return sorted(found, key=lambda one: one.index)

    def donors(self, now: Instant) -> list[Spare]:
        """Return devices that may be moved, in the order in which to take them.

        Each node keeps `gpus_min`; the warm reserve may be used, because it is kept for waiting jobs. Devices that are
        held, kept for a job, on their way, or were attached recently are left out.
        """
        budget, found, idle = Budget(self, now), list[Spare](), self.cluster.idle
        for name, group in self.cluster.config.groups.items():
            if not group.composable or now < self.cooldowns.gpus_until(group):
                continue
            able = [
                one
                for uuid in idle.idle_in[name]
                if budget.gpus_left(group, idle.node_of[uuid]) > 0
                and (one := self.find(uuid, now)) is not None
                and self.has_settled(uuid, now)
            ]
            found.extend(budget.allowed(group, self.emptiest_first(able), below_reserve=True))
        return self.emptiest_first(found)[:DONORS_MAX]

    def emptiest_first(self, devices: Iterable[Spare]) -> list[Spare]:
        """Sort by node: nodes that hold nothing, then nodes with the fewest GPUs; the longest idle devices first."""
        nodes = self.cluster.nodes

        def rank(one: Spare) -> tuple[bool, int, str, Instant, str]:
            node = nodes.description(one.node)
            count = len(node.present) if node is not None else 0
            return bool(nodes[one.node].jobs), count, one.node, one.since, one.uuid

        return sorted(devices, key=rank)

    # --- minimum time of an attachment -----------------------------------------------------------------------

    def has_settled(self, uuid: str, now: Instant) -> bool:
        """Return whether a device may leave the node: it has been attached there, idle or not, for its time."""
        return uuid in self.cluster.idle.devices.elapsed(now) or self._settled_at(uuid) <= now

    def next_settled(self, now: Instant) -> Instant | None:
        """Return when the next device may leave that has been idle long enough but was attached recently."""
        idle = self.cluster.idle
        return self._next_settled(set(idle.rested.elapsed(now)) - set(idle.devices.elapsed(now)), now)

    def next_idle_settled(self, now: Instant) -> Instant:
        """Return when the next idle device has been attached for its time, and may be moved; 0 if there is none."""
        idle = self.cluster.idle.idle_in.values()
        return self._next_settled((uuid for devices in idle for uuid in devices), now) or Instant(0)

    def _next_settled(self, uuids: Iterable[str], now: Instant) -> Instant | None:
        return min((moment for uuid in uuids if (moment := self._settled_at(uuid)) > now), default=None)

    def _settled_at(self, uuid: str) -> Instant:
        attachment = self.attachments.of_device.get(uuid)
        return (
            Instant(0)
            if attachment is None
            else after(Instant(attachment.since), self.cluster.config.settings.gpu_idle_s)
        )

    # --- nodes -----------------------------------------------------------------------------------------------

    def bound_to(self, node: str, now: Instant) -> str:
        """Return why a node must stay (a device on it or on its way there, or a reservation); "" if it need not."""
        for attachment in self.attachments.on.get(node, {}).values():
            if attachment.requested.type != GPU:
                return f"{attachment.requested.model} ({attachment.requested.type}) is attached to it"
            if attachment.requested.origin not in FREE_TO_TAKE:
                return f"{attachment.requested.request or attachment.id} asked for devices on it"
        group = self.cluster.group_of(node)
        reservation = self.cluster.bookings.keeping(node, now, group.round_trip_s) if group is not None else ""
        return f"reservation {reservation} keeps it" if reservation else ""

    def is_bare(self, group: GroupSettings, node: str) -> bool:
        """Return whether the node may be removed: no choice, no kept place and no fabric device is there."""
        known = self.cluster.fleet.ledger.nodes.get(node)
        if known is None or known.holds or self.choices.on_node(node) or self.attachments.on.get(node):
            return False
        description = self.cluster.nodes.description(node)
        return description is not None and not (group.composable and description.present)


class Budget:
    """Removals still allowed in one decision, so that all choices together keep every limit."""

    def __init__(self, spares: "SpareDevices", now: Instant) -> None:
        self._spares = spares
        self._cluster = spares.cluster
        self._choices = spares.choices
        self._now = now
        self._idle: dict[str, int] = {}
        self._nodes: dict[str, int] = {}
        self._on: dict[str, int] = {}

    def idle_left(self, group: GroupSettings) -> int:
        """Return the idle GPUs that the group can lose and keep its warm reserve."""
        if group.name not in self._idle:
            devices = self._cluster.idle.idle_in[group.name]
            idle = len(
                devices
            )  # without a reserve, or with too few devices for it, it does not matter which ones count
            if idle > group.warm_gpus > 0:
                idle = sum(self._spares.is_idle(uuid, self._now) for uuid in devices)
            self._idle[group.name] = beyond(group, idle)
        return self._idle[group.name]

    def gpus_left(self, group: GroupSettings, node: str) -> int:
        """Return the GPUs that the node can lose and keep `gpus_min`."""
        if node not in self._on:
            description, going = self._cluster.nodes.description(node), self._choices.of_device
            there = 0
            if description is not None and len(description.gpu_uuids) > group.gpus_min:  # else it has none to lose
                there = sum(uuid not in going for uuid in description.present.values())
            self._on[node] = there - group.gpus_min
        return self._on[node]

    def nodes_left(self, group: GroupSettings) -> int:
        """Return the nodes that the group can lose and keep `nodes_min`."""
        if group.name not in self._nodes:
            names = self._cluster.node_groups.nodes_in(group.name)
            leaving = sum(
                choice.name == REMOVE_NODE and choice.chosen.node in names for choice in self._choices.open.values()
            )
            self._nodes[group.name] = len(names) - leaving - group.nodes_min
        return self._nodes[group.name]

    def take_gpus(self, group: GroupSettings, node: str, count: int) -> None:
        """Count GPUs taken from a node of the group."""
        self._idle[group.name] = self.idle_left(group) - count
        self._on[node] = self.gpus_left(group, node) - count

    def take_node(self, group: GroupSettings, idle: int) -> None:
        """Count a node taken with its idle GPUs."""
        self._nodes[group.name] = self.nodes_left(group) - 1
        self._idle[group.name] = self.idle_left(group) - idle

    def allowed(
        self, group: GroupSettings, found: list[Spare], *, below_least: bool = False, below_reserve: bool = False
    ) -> Iterator[Spare]:
        """Yield the spare devices that may go, in their order.

        `below_least`: their nodes are removed too. `below_reserve`: a job needs them elsewhere, so the reserve may be
        used.
        """
        left, on = len(found) if below_reserve else self.idle_left(group), dict[str, int]()
        for one in found:
            of_node = on.setdefault(one.node, self.gpus_left(group, one.node))
            if left > 0 and (below_least or of_node > 0):
                left, on[one.node] = left - 1, of_node - 1
                yield one


def beyond(group: GroupSettings, idle: int) -> int:
    """Return how many of a group's idle GPUs exceed its reserve."""
    return max(0, idle - group.warm_gpus)
