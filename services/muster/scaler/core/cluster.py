"""The nodes of the cluster: what they are, what jobs hold and reservations keep there, and changes on their way.

Changes on their way are entered in the fleet itself, node by node, between decisions: nodes, devices and the places
kept on them. They are a function of the facts about a node and of the choices that concern it, so it does not matter
when they were entered. Every fold about a node first lifts (removes) them, so the fold only sees the real fleet; the
next decision enters them again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from muster.cluster import Holds
from muster.cluster.grants import Grants
from muster.cluster.ledger import Ledger, LedgerListener
from muster.cluster.node_records import NodeTable
from muster.core import Fact, Instant, after
from muster.core.folding import Folds
from muster.core.settings import GroupSettings
from muster.fabric.layout import node_name
from muster.placement import DEVICE_MILLI, Fleet, GangRequest, Hold, NodeShape, Slot, TaskShape, share_of
from muster.placement.growth import grow, shrink
from muster.placement.state import StateKey, fits, positions
from muster.scaler.core.groups import ScalingConfig
from muster.scaler.core.idle import IdleClock
from muster.schemas import job
from muster.schemas.facts.reservation import Booked, BookingEnded, ReservationState
from muster.schemas.registry import STATE_NAME

RACK = "rack"
"""The topology level of nodes of a group while no node of the group exists."""


@dataclass(frozen=True, slots=True)
class Booking:
    """One window of an advance reservation."""

    name: str
    nodes: frozenset[str]
    """Nodes that are kept whole."""
    devices: dict[str, frozenset[int]]
    """Indexes of kept devices, by node."""
    starts_at: Instant
    ends_at: Instant

    def is_near(self, now: Instant, lead_s: float) -> bool:
        """Return whether it has begun or begins within `lead_s`, and is not over."""
        return now < self.ends_at and self.starts_at <= after(now, lead_s)


class Bookings:
    """The windows of all booked advance reservations, by name and by node.

    A window that is far away keeps nothing here: devices removed until then come back in time, and the scheduler books
    other GPUs if those that it chose are gone.
    """

    FOLDS = Folds["Bookings", None]()

    def __init__(self) -> None:
        self.by_name: dict[str, Booking] = {}
        self._on: dict[str, dict[str, Booking]] = {}

    @FOLDS.on("reservation", "booked", Booked)
    def _booked(self, fact: Fact, booked: Booked) -> None:
        name = fact.subject_id
        self._end(name)
        starts_at = Instant(booked.starts_at or booked.spec.starts_at)
        devices = {slot.node: frozenset(slot.kept_at) for slot in booked.slots}
        ends_at = after(starts_at, booked.spec.duration_s)
        booking = Booking(name, frozenset(booked.spec.nodes), devices, starts_at, ends_at)
        self.by_name[name] = booking
        for node in (*booking.nodes, *booking.devices):
            self._on.setdefault(node, {})[name] = booking

    @FOLDS.on("reservation", STATE_NAME, ReservationState)
    def _restored(self, fact: Fact, stored: ReservationState) -> None:
        if stored.spec is not None:  # else it is only requested, and keeps nothing
            self._booked(fact, Booked(spec=stored.spec, starts_at=stored.starts_at, slots=stored.slots))

    @FOLDS.on("reservation", "ended", BookingEnded)
    def _ended(self, fact: Fact, _: BookingEnded) -> None:
        self._end(fact.subject_id)

    def _end(self, name: str) -> None:
        booking = self.by_name.pop(name, None)
        for node in (*booking.nodes, *booking.devices) if booking is not None else ():
            self._on[node].pop(name, None)
            if not self._on[node]:
                del self._on[node]

    def keeping(self, node: str, now: Instant, lead_s: float) -> str:
        """Return the reservation that keeps the node, or something on it; "" if there is none."""
        return next((booking.name for booking in self._near(node, now, lead_s)), "")

    def keeps_device(self, node: str, index: int, now: Instant, lead_s: float) -> bool:
        """Return whether a reservation keeps this device."""
        near = self._near(node, now, lead_s)
        return any(node in booking.nodes or index in booking.devices.get(node, ()) for booking in near)

    def _near(self, node: str, now: Instant, lead_s: float) -> Iterator[Booking]:
        return (booking for booking in self._on.get(node, {}).values() if booking.is_near(now, lead_s))


@dataclass(frozen=True, slots=True)
class Kept:
    """Places on a node for replicas of one group of a gang."""

    gang: GangRequest
    group: int
    replicas: int


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected future shape of a node."""

    shape: NodeShape | None = None
    """The shape of a node that has not joined."""
    is_usable: bool = False
    """Whether the node joined, and the scheduler will release it."""
    devices: int = 0
    """How many more GPUs the node will have."""
    model: str = ""
    """Model of these GPUs."""
    usable: tuple[int, ...] = ()
    """Indexes of devices that the scheduler will release."""
    unusable: tuple[int, ...] = ()
    """Indexes of devices that will go."""
    kept: Sequence[Kept] = ()
    """Places kept for waiting jobs."""

    @property
    def is_unchanged(self) -> bool:
        """Whether the node is already what it will be."""
        return not (self.shape or self.is_usable or self.devices or self.usable or self.unusable or self.kept)


@dataclass(slots=True)
class _Entered:
    """Changes entered on a node, which are undone in reverse order."""

    expected: Expected
    model: str
    holds: list[Hold] = field(default_factory=list)


class Coming:
    """Changes on their way, as entered in the fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._entered: dict[str, _Entered] = {}
        self.stale: dict[str, None] = {}
        """Nodes on which changes have to be entered again."""

    def lift(self, name: str) -> None:
        """Undo the changes entered on a node: it is as it really is until they are entered again."""
        self.stale[name] = None
        entered = self._entered.pop(name, None)
        if entered is None:
            return
        fleet, expected = self._fleet, entered.expected
        for hold in reversed(entered.holds):
            fleet.withdraw(hold)
        for index in expected.unusable:
            fleet.set_device_usable(name, index, True)
        for index in expected.usable:
            fleet.set_device_usable(name, index, False)
        if expected.shape is not None:
            fleet.remove_node(name)
            return
        if expected.devices:
            shrink(fleet, name, expected.devices, model=entered.model)
        if expected.is_usable:
            fleet.set_usable(name, False)

    def enter(self, name: str, expected: Expected) -> None:
        """Enter the changes on a node that was lifted before."""
        self.stale.pop(name, None)
        if expected.is_unchanged:
            return
        fleet = self._fleet
        if expected.shape is not None:
            fleet.add_node(expected.shape)
        entered = self._entered[name] = _Entered(expected, fleet.ledger.node(name).shape.gpu_model)
        if expected.is_usable:
            fleet.set_usable(name, True)
        if expected.devices:
            grow(fleet, name, expected.devices, model=expected.model)
        for index in expected.usable:
            fleet.set_device_usable(name, index, True)
        for index in expected.unusable:
            fleet.set_device_usable(name, index, False)
        for kept in expected.kept:
            for _ in range(kept.replicas):
                hold = hold_on(fleet, name, kept.gang.groups[kept.group].shape)
                if hold is None:
                    break
                fleet.hold(hold)
                entered.holds.append(hold)


class NodeGroups:
    """The nodes that are part of the cluster, by node group."""

    def __init__(self, nodes: NodeTable) -> None:
        self.models: dict[str, str] = {}
        """GPU model of each node that has GPUs."""
        self._nodes = nodes
        self._members: dict[str, dict[str, None]] = {}
        self._group: dict[str, str] = {}

    def group_of(self, name: str) -> str:
        """Return the group of a node; "" if it has none."""
        return self._group.get(name, "")

    def nodes_in(self, group: str) -> Mapping[str, None]:
        """Return the nodes of a group, in the order in which they came."""
        return self._members.get(group, {})

    def note(self, name: str) -> bool:
        """Follow a node that joined, left or changed; return whether its GPU model changed."""
        description = self._nodes.description(name)
        before = self._group.pop(name, "")
        group = description.group if description is not None else ""
        if before != group and before:
            self._members[before].pop(name, None)
        if group:
            self._group[name] = group
            self._members.setdefault(group, {})[name] = None
        model = self.models.pop(name, "")
        if description is not None and description.gpu_model:
            self.models[name] = description.gpu_model
        return self.models.get(name, "") != model


@dataclass(slots=True)
class Cluster:
    """All nodes, written by the fold alone; a decision only enters and lifts changes on their way (`Coming`).

    Invariant: a node that a fact concerns is in `changed` until the end of the fold, and stale in `coming`.
    """

    config: ScalingConfig
    nodes: NodeTable = field(default_factory=NodeTable)
    fleet: Fleet = field(default_factory=Fleet)
    """The nodes for the placement engine, with what is on its way."""
    holds: Holds = field(default_factory=Holds)
    """What jobs hold."""
    bookings: Bookings = field(default_factory=Bookings)
    """What reservations keep."""
    grants: Grants = field(init=False)
    ledger: Ledger = field(init=False)
    coming: Coming = field(init=False)
    changed: dict[str, None] = field(default_factory=dict)
    """Nodes that the current fact concerns."""
    node_groups: NodeGroups = field(init=False)
    idle: IdleClock = field(init=False)

    def __post_init__(self) -> None:
        self.coming = Coming(self.fleet)
        self.node_groups = NodeGroups(self.nodes)
        self.grants = Grants(self.nodes, self.fleet)
        self.ledger = Ledger(self.nodes, self.fleet, self.grants, LedgerListener(self.mark, self.mark, self.mark))
        self.idle = IdleClock(self.config, self.nodes, self.fleet, self.holds)

    def group_of(self, node: str) -> GroupSettings | None:
        """Return the configured group of a node that is part of the cluster."""
        return self.config.groups.get(self.node_groups.group_of(node))

    def slots_held(self, job_id: str) -> tuple[job.Slot, ...]:
        """Return the slots that a job holds, also those that a resize adds."""
        hold = self.holds.jobs.get(job_id)
        return () if hold is None else hold.held

    def gpu_model(self, node: str) -> str:
        """Return the GPU model of a node as the fleet has it; "" if the node is not known."""
        known = self.fleet.ledger.nodes.get(node)
        return known.shape.gpu_model if known is not None else ""

    def lift(self, *names: str) -> None:
        """Lift the changes on their way to these nodes, because the changes are about to differ."""
        for name in names:
            self.coming.lift(name)

    def mark(self, *names: str) -> None:
        """Note that these nodes are about to change, and lift the changes on their way to them."""
        self.lift(*names)
        self.changed.update(dict.fromkeys(names))

    def actual_node(self, group: str) -> NodeShape | None:
        """Return the shape of one node of a group; every scaler that folded the same facts takes the same node."""
        name = min(self.node_groups.nodes_in(group), default="")
        node = self.nodes.description(name)
        if node is None:
            return None
        return NodeShape(name, node.cpu_milli, node.memory_mib, len(node.present), node.gpu_model)

    def expected_domains(self, group: GroupSettings, name: str) -> tuple[tuple[str, str], ...]:
        """Return the topology domains of a node that does not exist yet: those of the nodes in its rack, by number.

        A rack without a node of the group is a new one, of the narrowest level that the other nodes declare.
        """
        rack = _rack(group, name)
        first = rack * group.rack_size + 1
        for index in range(first, first + group.rack_size):
            description = self.nodes.description(node_name(group.name, index))
            if description is not None and description.group == group.name:
                return description.domains
        other = self.nodes.description(next(iter(self.node_groups.nodes_in(group.name)), ""))
        level = RACK if other is None else other.domains[-1][0] if other.domains else ""
        return ((level, f"{group.name}-r{rack}"),) if level else ()


def _rack(group: GroupSettings, name: str) -> int:
    number = name.rpartition("-")[2]
    return (int(number) - 1) // group.rack_size if number.isdecimal() and int(number) else 0


def hold_on(fleet: Fleet, name: str, shape: TaskShape) -> Hold | None:
    """Return what one replica would hold on this node, on its tightest devices; None if it does not fit there now."""
    node = fleet.ledger.nodes[name]
    if node.state is None or not fits(node.state.key, shape):
        return None
    key: StateKey = node.state.key
    if shape.full_node:
        devices = tuple(node.shape.devices)
        milli = DEVICE_MILLI if devices else 0
        return Hold(node.shape.cpu_milli, node.shape.memory_mib, Slot(0, 0, name, devices, milli))
    share, taken, devices = 0, 0, tuple[int, ...]()
    if shape.gpus:
        share = DEVICE_MILLI
    elif shape.gpu_milli:
        taken = share_of(shape.gpu_milli, key.sizes)
        share = min(idle for idle in key.shares if idle >= taken)
    if key.parts:
        devices = node.devices_at(positions(key, shape, share))
    elif share:
        devices = node.devices_idle(share, shape.gpus or 1)
    return Hold(shape.cpu_milli, shape.memory_mib, Slot(0, 0, name, devices, taken or share))
