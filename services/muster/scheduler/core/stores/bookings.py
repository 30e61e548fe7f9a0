"""What is kept in the fleet for those who need it later: for jobs with a reservation, and for advance reservations.

A booking takes what is idle on its slots now, as ordinary holds in the placement ledger, and takes what comes free
there as soon as it does: device by device, of CPU and memory as much as it wants. So to the rest of the scheduler what
is kept does not exist. Who may use it nevertheless sees it while the booking is open.

What is kept is a function of the bookings and of what jobs hold, whatever the order in which that came about: on each
node the bookings take in turn, the earliest first. A fact about a job goes before every booking: see `give_way`.
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
"""Group of a slot that no job holds but a booking."""

RESERVATION = "reservation/"
"""What the keys of advance reservations begin with; those of others are the ids of their jobs."""

WITHHOLD = "withhold/"
"""What the keys of those begin with that are to be free for a service."""


@dataclass(frozen=True, slots=True)
class Want:
    """What is to be kept on one node. devices: milli-GPUs by index. whole: all that the node has.

    with_rest: whole devices with their part of the node's CPU and memory.
    """

    cpu_milli: int = 0
    memory_mib: int = 0
    devices: tuple[tuple[int, int], ...] = ()
    whole: bool = False
    with_rest: bool = False

    def on(self, shape: NodeShape) -> "Want":
        """What that is on this node; devices that it does not have are left out."""
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
        """Whether both cannot have what they want of a node: they want a device in common, or one wants all of it."""
        if self.whole or other.whole:
            return True
        return not {index for index, _ in self.devices}.isdisjoint(index for index, _ in other.devices)

    def is_all_of(self, asked: "Want") -> bool:
        """Whether the node has all that was asked of it."""
        if asked.whole or self.devices != asked.devices:
            return asked.whole
        return asked.with_rest or (self.cpu_milli, self.memory_mib) == (asked.cpu_milli, asked.memory_mib)


@dataclass(frozen=True, slots=True)
class _Found:
    """What a booking takes of a node in one state, and whether that is all it wants. idle: milli-GPUs, by device."""

    shape: NodeShape
    cpu_milli: int
    memory_mib: int
    idle: tuple[int, ...]
    holds: list[Hold]
    is_all: bool

    def is_of(self, node: Node) -> bool:
        """Whether the node is in this state."""
        is_same = self.shape is node.shape and self.cpu_milli == node.cpu_milli and self.memory_mib == node.memory_mib
        return is_same and self.idle == tuple(node.idle)


@dataclass(slots=True)
class Booking:
    """What is kept for `key` from starts_at (to ends_at; 0: until it is unbooked).

    wants: by node. kept: what it has, as held in the fleet. lacking: nodes where that is less than it wants.
    queue: whose jobs may use it once it began; empty: only the job `job_id`, and nobody if that is empty too.
    last: what was found for it on each node when that was last looked at; saves work, see `Bookings`.
    of: the fact that it follows from. moves: of what is to be free for a service: whether jobs that allow it are moved
    away then; the others have to be at their end before.
    """

    key: str
    starts_at: int
    wants: Mapping[str, Want]
    ends_at: int = 0
    job_id: str = ""
    queue: str = ""
    of: object = None
    moves: bool = False
    kept: dict[str, list[Hold]] = field(default_factory=dict)
    lacking: set[str] = field(default_factory=set)
    last: dict[str, "_Found"] = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_complete(self) -> bool:
        """Whether all of it is kept."""
        return not self.lacking

    @property
    def is_reservation(self) -> bool:
        """Whether people asked for it in advance; else it is for a job that starves or for which others go."""
        return self.key.startswith(RESERVATION)

    @property
    def is_withhold(self) -> bool:
        """Whether a service asked that it is free from then on; nobody knows when it can be used again."""
        return self.key.startswith(WITHHOLD)

    @property
    def kept_milli(self) -> int:
        """Milli-GPUs that it keeps."""
        holds = (hold for holds in self.kept.values() for hold in holds)
        return sum(hold.slot.gpu_milli * len(hold.slot.devices) for hold in holds)

    @property
    def turn(self) -> tuple[int, str]:
        """On a node the earliest takes first."""
        return self.starts_at, self.key


def wants_of(holds: Iterable[Hold], *, whole: bool = False) -> dict[str, Want]:
    """What holds want of each node. whole: the nodes as one piece."""
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
    """All bookings. What they keep is brought up to date by `settle`, node by node where something happened.

    in_advance: those that people asked for. withholds: what is to be free for services; on their nodes, as `at` says.
    complete: keys of the others that lack nothing. grown: how often something more was kept: whoever may use what is
    kept looks again when it has grown.
    """

    def __init__(self, fleet: Fleet) -> None:
        self.all: dict[str, Booking] = {}
        self.in_advance: dict[str, Booking] = {}
        self.withholds: dict[str, Booking] = {}
        self.complete: dict[str, None] = {}
        self.grown = 0
        self._fleet = fleet
        self._at: dict[str, dict[str, Booking]] = {}
        self._dirty: dict[str, None] = {}
        self._open: dict[str, tuple[str, ...]] = {}  # by key, the nodes where that may make a difference
        self._lent: dict[str, None] = {}

    def book(self, booking: Booking) -> None:
        """Keep this from the next `settle` on, instead of what was kept for the same key."""
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
        """Nothing is kept for this key any more: it came free. False if nothing was."""
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
        """Something else is held on the node now, or the node is another."""
        if name in self._at:
            self._dirty[name] = None

    def give_way(self, name: str) -> None:
        """Give back all that is kept on the node, so that what is a fact can be entered; `settle` takes the rest."""
        for booking in self._at.get(name, {}).values():
            for hold in booking.kept.pop(name, ()):
                self._fleet.withdraw(hold)
            booking.lacking.add(name)
            self.complete.pop(booking.key, None)
            self._dirty[name] = None

    def lend(self, key: str) -> None:
        """Keep nothing for this key until `recall`: who it is for has been given its place in this decision."""
        self._lent[key] = None
        self._dirty.update(dict.fromkeys(self.all[key].wants))
        self.settle()

    def recall(self) -> None:
        """Keep for all again."""
        for key in self._lent:
            booking = self.all.get(key)
            self._dirty.update(dict.fromkeys(booking.wants if booking is not None else ()))
        self._lent.clear()

    def settle(self) -> None:
        """Keep all that is idle and wanted on the nodes where something happened."""
        for name in self._dirty:
            self._settle(name)
        self._dirty.clear()

    @contextmanager
    def opened(self, keys: Collection[str]) -> Iterator[None]:
        """For a while nothing is kept for these keys, and nobody is told that it came free.

        While others are open, these are open instead of them.
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
        """Open these instead of what is open, inside of `opened`. Returns on how many nodes that made a difference."""
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
        """Where it keeps something, or would as soon as an earlier one there is open."""
        return tuple(name for name in booking.wants if name in booking.kept or len(self._at[name]) > 1)

    def is_effective(self, booking: Booking, *, for_devices: bool = False) -> bool:
        """Whether there is such a node. for_devices: one with a device that is idle or kept."""
        if any(len(self._at[name]) > 1 for name in booking.wants):
            return True
        if not for_devices:
            return bool(booking.kept)
        return any(self._is_of_devices(name, holds) for name, holds in booking.kept.items())

    def _is_of_devices(self, name: str, kept: Iterable[Hold]) -> bool:
        node = self._fleet.ledger.nodes.get(name)
        return any(hold.slot.devices for hold in kept) or (node is not None and any(node.idle))

    def at(self, name: str) -> tuple[Booking, ...]:
        """Those that want something of this node, the earliest first."""
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

        Campaigns book whole fleets, each node of which is opened and closed whenever somebody looks for room. So what
        follows from one state of a node is found once, and found again only when the node is in another.
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
    """What is idle of what is wanted of a node, and whether that is all of it."""
    want = wanted.on(node.shape)
    cpu, memory = min(want.cpu_milli, node.cpu_milli), min(want.memory_mib, node.memory_mib)
    found = tuple((index, min(milli, node.idle[index])) for index, milli in want.devices)
    is_all = (cpu, memory, found) == (want.cpu_milli, want.memory_mib, want.devices) and want.is_all_of(wanted)
    return _holds(name, cpu, memory, found), is_all


def _holds(name: str, cpu_milli: int, memory_mib: int, devices: Iterable[tuple[int, int]]) -> list[Hold]:
    """One hold per share that is taken of devices; CPU and memory stand on the first."""
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
    """The job's record changed: keep what is reserved for it, as long as it waits."""
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
    """What a reserved job will hold; of whole nodes what they have now. Empty if one of them is not there."""
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
