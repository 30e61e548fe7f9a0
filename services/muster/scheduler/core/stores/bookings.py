"""Bookings: capacity that is kept for later use, for jobs with a reservation, advance reservations, and drains.

A booking takes what is idle on its slots now, as ordinary holds in the placement ledger, and takes what becomes free
there as soon as it does: device by device, and CPU and memory up to what it wants. So the kept capacity does not exist
for the rest of the scheduler. Jobs that may use it see it while the booking is open.

The kept capacity is a function of the bookings and of what jobs hold, whatever the order of events: on each node the
bookings take in turn, earliest start first. A fact about a job takes precedence over every booking: see `give_way`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from muster.cluster.gangs import hold_of
from muster.placement import DEVICE_MILLI, Fleet, Hold, NodeShape
from muster.placement import Slot as Place
from muster.placement.node import Node
from muster.scheduler.core.stores.jobs import WAITING, JobRecord

KEPT = -1
"""Task group of a slot that is held by a booking instead of a job."""

RESERVATION = "reservation/"
"""Prefix of the keys of advance reservations; the keys of jobs' bookings are job ids."""

WITHHOLD = "withhold/"
"""Prefix of the keys of drain bookings."""


@dataclass(frozen=True, slots=True)
class Want:
    """Request of a booking on one node."""

    cpu_milli: int = 0
    memory_mib: int = 0
    devices: tuple[tuple[int, int], ...] = ()
    """Device index and milli-GPUs."""
    whole: bool = False
    """Whether it wants all of the node."""
    with_rest: bool = False
    """Whether whole devices come with their part of the node's CPU and memory."""

    def on(self, shape: NodeShape) -> "Want":
        """Return what this amounts to on a node; devices that the node does not have are left out."""
        if self.whole:
            devices = tuple((index, DEVICE_MILLI) for index in shape.devices)
            return Want(shape.cpu_milli, shape.memory_mib, devices)
        there = shape.devices
        devices = tuple((index, milli) for index, milli in self.devices if index in there)
        if self.with_rest:
            part, of = len(devices), max(1, len(there))
            return Want(shape.cpu_milli * part // of, shape.memory_mib * part // of, devices)
        return Want(min(self.cpu_milli, shape.cpu_milli), min(self.memory_mib, shape.memory_mib), devices)

    def meets(self, other: "Want") -> bool:
        """Return whether both wants conflict on a node: they share a device, or one wants all of the node."""
        if self.whole or other.whole:
            return True
        return not {index for index, _ in self.devices}.isdisjoint(index for index, _ in other.devices)

    def is_all_of(self, asked: "Want") -> bool:
        """Return whether this, the result of `on`, is all that was wanted."""
        if asked.whole or self.devices != asked.devices:
            return asked.whole
        return asked.with_rest or (self.cpu_milli, self.memory_mib) == (asked.cpu_milli, asked.memory_mib)


@dataclass(frozen=True, slots=True)
class _Found:
    """Capacity of a node in one state for a booking."""

    shape: NodeShape
    cpu_milli: int
    memory_mib: int
    idle: tuple[int, ...]
    """Milli-GPUs by device."""
    holds: list[Hold]
    is_all: bool
    """Whether the booking gets all that it wants."""

    def is_of(self, node: Node) -> bool:
        """Return whether the node is in this state."""
        is_same = self.shape is node.shape and self.cpu_milli == node.cpu_milli and self.memory_mib == node.memory_mib
        return is_same and self.idle == tuple(node.idle)


@dataclass(slots=True)
class Booking:
    """Capacity that is kept for `key` from `starts_at` on."""

    key: str
    starts_at: int
    wants: Mapping[str, Want]
    """By node."""
    ends_at: int = 0
    """0: until it is unbooked."""
    job_id: str = ""
    queue: str = ""
    """The queue whose jobs may use it once it began; empty: only the job `job_id`, and no job if that is empty too."""
    of: object = None
    """The fact that it follows from."""
    moves: bool = False
    """Whether a drain moves jobs that allow it away; the others have to end before it."""
    kept: dict[str, list[Hold]] = field(default_factory=dict)
    """By node, what it has, as held in the fleet."""
    lacking: set[str] = field(default_factory=set)
    """Nodes on which it has less than it wants."""
    last: dict[str, "_Found"] = field(default_factory=dict, repr=False, compare=False)
    """Cached results by node, see `Bookings`."""

    @property
    def is_complete(self) -> bool:
        """Whether all of it is kept."""
        return not self.lacking

    @property
    def is_reservation(self) -> bool:
        """Whether it is an advance reservation; else it belongs to a job that starves or preempts."""
        return self.key.startswith(RESERVATION)

    @property
    def is_withhold(self) -> bool:
        """Whether it is a drain for a service, whose end is unknown."""
        return self.key.startswith(WITHHOLD)

    @property
    def kept_milli(self) -> int:
        """Milli-GPUs that it keeps."""
        holds = (hold for holds in self.kept.values() for hold in holds)
        return sum(hold.slot.gpu_milli * len(hold.slot.devices) for hold in holds)

    @property
    def turn(self) -> tuple[int, str]:
        """Sort key: on a node the booking with the earliest start takes first."""
        return self.starts_at, self.key


def wants_of(holds: Iterable[Hold], *, whole: bool = False) -> dict[str, Want]:
    """Return what holds want of each node; with `whole`, all of the nodes."""
    wants: dict[str, Want] = {}
    for hold in holds:
        name, sofar = hold.slot.node, wants.get(hold.slot.node, Want())
        devices = dict(sofar.devices)
        for index in hold.slot.devices:
            devices[index] = min(DEVICE_MILLI, devices.get(index, 0) + hold.slot.gpu_milli)
        wants[name] = Want(
            sofar.cpu_milli + hold.cpu_milli, sofar.memory_mib + hold.memory_mib, tuple(sorted(devices.items())), whole
        )
    return wants


class Bookings:
    """All bookings. `settle` updates what they keep, on the nodes where something changed."""

    def __init__(self, fleet: Fleet) -> None:
        self.all: dict[str, Booking] = {}
        self.in_advance: dict[str, Booking] = {}
        """Advance reservations."""
        self.withholds: dict[str, Booking] = {}
        """Drains for services."""
        self.complete: dict[str, None] = {}
        """Keys of other bookings that lack nothing."""
        self.grown = 0
        """Grows when more is kept: jobs that may use kept capacity are then tried again."""
        self._fleet = fleet
        self._at: dict[str, dict[str, Booking]] = {}
        self._dirty: dict[str, None] = {}
        self._open: dict[str, tuple[str, ...]] = {}  # by key, the nodes on which opening it makes a difference
        self._lent: dict[str, None] = {}

    def book(self, booking: Booking) -> None:
        """Keep this from the next `settle` on, instead of the booking with the same key."""
        self.unbook(booking.key)
        self.all[booking.key] = booking
        if booking.is_reservation:
            self.in_advance[booking.key] = booking
        if booking.is_withhold:
            self.withholds[booking.key] = booking
        booking.lacking.update(booking.wants)
        for name in booking.wants:
            self._at.setdefault(name, {})[booking.key] = booking
            self._dirty[name] = None

    def unbook(self, key: str) -> bool:
        """Free what is kept for this key, and return whether there was a booking."""
        booking = self.all.pop(key, None)
        if booking is None:
            return False
        for holds in booking.kept.values():
            for hold in holds:
                self._fleet.release(hold)
        for name in booking.wants:
            here = self._at[name]
            del here[key]
            if not here:
                del self._at[name]
            self._dirty[name] = None
        self.complete.pop(key, None)
        self.in_advance.pop(key, None)
        self.withholds.pop(key, None)
        return True

    def touch(self, name: str) -> None:
        """Note that the node, or what is held on it, changed."""
        if name in self._at:
            self._dirty[name] = None

    def give_way(self, name: str) -> None:
        """Free all that is kept on the node, so that a fact can be entered; `settle` takes the rest again."""
        for booking in self._at.get(name, {}).values():
            for hold in booking.kept.pop(name, ()):
                self._fleet.withdraw(hold)
            booking.lacking.add(name)
            self.complete.pop(booking.key, None)
            self._dirty[name] = None

    def lend(self, key: str) -> None:
        """Keep nothing for this key until `recall`: its job has been placed by this decision."""
        self._lent[key] = None
        self._dirty.update(dict.fromkeys(self.all[key].wants))
        self.settle()

    def recall(self) -> None:
        """Keep capacity for all bookings again."""
        for key in self._lent:
            booking = self.all.get(key)
            self._dirty.update(dict.fromkeys(booking.wants if booking is not None else ()))
        self._lent.clear()

    def settle(self) -> None:
        """Take all that is idle and wanted on the nodes where something changed."""
        for name in self._dirty:
            self._settle(name)
        self._dirty.clear()

    @contextmanager
    def opened(self, keys: Collection[str]) -> Iterator[None]:
        """Open these bookings for a while: nothing is kept for them, and it is not counted as freed.

        A nested call replaces the bookings that are open.
        """
        self.settle()
        before, grown = self._open, self.grown
        self.switch(keys)
        try:
            yield
        finally:
            self.switch(before)
            self.grown = grown

    def switch(self, keys: Collection[str]) -> int:
        """Open these bookings instead of the open ones, inside of `opened`, and return how many nodes that changed."""
        before, now = self._open, dict[str, tuple[str, ...]]()
        for key in keys:
            if key in self.all:
                now[key] = before[key] if key in before else self.nodes_of(self.all[key])
        changed = [*(before[key] for key in before if key not in now), *(now[key] for key in now if key not in before)]
        self._dirty.update(dict.fromkeys(sorted({name for nodes in changed for name in nodes})))
        self._open = now
        touched = len(self._dirty)
        self.settle()
        return touched

    def nodes_of(self, booking: Booking) -> tuple[str, ...]:
        """Return the nodes where it keeps something, or would if an earlier booking there were open."""
        return tuple(name for name in booking.wants if name in booking.kept or len(self._at[name]) > 1)

    def is_effective(self, booking: Booking, *, for_devices: bool = False) -> bool:
        """Return whether opening it could matter; with `for_devices`, on a node with an idle or kept device."""
        if any(len(self._at[name]) > 1 for name in booking.wants):
            return True
        if not for_devices:
            return bool(booking.kept)
        return any(self._is_of_devices(name, holds) for name, holds in booking.kept.items())

    def _is_of_devices(self, name: str, kept: Iterable[Hold]) -> bool:
        node = self._fleet.ledger.nodes.get(name)
        return any(hold.slot.devices for hold in kept) or (node is not None and any(node.idle))

    def at(self, name: str) -> tuple[Booking, ...]:
        """Return the bookings that want something of this node, earliest start first."""
        here = self._at.get(name)
        return tuple(sorted(here.values(), key=lambda booking: booking.turn)) if here else ()

    def _settle(self, name: str) -> None:
        here = self.at(name)
        before = {booking.key: booking.kept.pop(name, []) for booking in here}
        for holds in before.values():
            for hold in holds:
                self._fleet.withdraw(hold)
        for booking in here:
            if booking.key in self._open or booking.key in self._lent:
                booking.lacking.add(name)
            else:
                self._keep(booking, name)
                self.grown += booking.kept.get(name, []) != before[booking.key]
            if booking.is_complete and not booking.is_withhold:
                self.complete[booking.key] = None
            else:
                self.complete.pop(booking.key, None)

    def _keep(self, booking: Booking, name: str) -> None:
        """Take what is idle of what the booking wants on this node.

        Campaigns book whole fleets, each node of which is opened and closed by every search. So the result for one
        state of a node is cached until the node is in another state.
        """
        booking.lacking.add(name)
        node = self._fleet.ledger.nodes.get(name)
        if node is None:
            return
        last = booking.last.get(name)
        if last is None or not last.is_of(node):
            holds, is_all = _idle_part(booking.wants[name], node, name)
            last = booking.last[name] = _Found(
                node.shape, node.cpu_milli, node.memory_mib, tuple(node.idle), holds, is_all
            )
        for hold in last.holds:
            self._fleet.hold(hold)
        if last.holds:
            booking.kept[name] = last.holds
        if last.is_all:
            booking.lacking.discard(name)


def _idle_part(wanted: Want, node: Node, name: str) -> tuple[list[Hold], bool]:
    """Return what is idle of what is wanted of a node, and whether that is all of it."""
    want = wanted.on(node.shape)
    cpu, memory = min(want.cpu_milli, node.cpu_milli), min(want.memory_mib, node.memory_mib)
    found = tuple((index, min(milli, node.idle[index])) for index, milli in want.devices)
    is_all = (cpu, memory, found) == (want.cpu_milli, want.memory_mib, want.devices) and want.is_all_of(wanted)
    return _holds(name, cpu, memory, found), is_all


def _holds(name: str, cpu_milli: int, memory_mib: int, devices: Iterable[tuple[int, int]]) -> list[Hold]:
    """Return one hold per share that is taken of devices; the first one has the CPU and memory."""
    by_share: dict[int, list[int]] = {}
    for index, milli in devices:
        if milli:
            by_share.setdefault(milli, []).append(index)
    if not by_share and (cpu_milli or memory_mib):
        by_share[0] = []
    holds = []
    for share, indexes in by_share.items():
        holds.append(Hold(cpu_milli, memory_mib, Place(KEPT, 0, name, tuple(indexes), share)))
        cpu_milli = memory_mib = 0
    return holds


def book_reserved(bookings: Bookings, record: JobRecord) -> None:
    """Keep the job's reservation as its record says, as long as the job waits."""
    reserved = record.reserved
    if reserved is None or record.phase not in WAITING:
        bookings.unbook(record.id)
        return
    known = bookings.all.get(record.id)
    if known is not None and known.of is reserved:
        return
    gang = record.job_class.gang
    whole = any(group.shape.full_node for group in gang.groups)
    wants = wants_of((hold_of(slot, gang) for slot in reserved.slots), whole=whole)
    bookings.book(Booking(record.id, reserved.starts_at, wants, job_id=record.id, of=reserved))


def holds_of(fleet: Fleet, record: JobRecord) -> tuple[Hold, ...]:
    """Return what a reserved job will hold, with the present size of whole nodes; empty if a node is missing."""
    gang, holds = record.job_class.gang, list[Hold]()
    for slot in record.reserved.slots if record.reserved is not None else ():
        hold = hold_of(slot, gang)
        if gang.groups[slot.group].shape.full_node:
            node = fleet.ledger.nodes.get(slot.node)
            if node is None:
                return ()
            hold = Hold(node.shape.cpu_milli, node.shape.memory_mib, hold.slot)
        holds.append(hold)
    return tuple(holds)
