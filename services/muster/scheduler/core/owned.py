"""Whoever has reserved something in advance is placed there first while it lasts, and leaves the rest to others.

Places are looked for in a small fleet of its own that has nothing but what the reservation keeps. Who fits there only
together with places that are free for all finds them later, by backfill. Nothing is looked at while nothing moved.
"""

from collections.abc import Iterator

from muster.core import Draft, Instant
from muster.placement import Fleet, GangRequest, Hold
from muster.placement import Slot as Place
from muster.scheduler.core.bookings import KEPT, Booking
from muster.scheduler.core.jobs import JobRecord
from muster.scheduler.core.lanes import Lane, entry_of
from muster.scheduler.core.pacing import Pace
from muster.scheduler.core.remains import Remains
from muster.scheduler.core.reserved import place_at
from muster.scheduler.core.rounds import Heads, add_head, rounds
from muster.scheduler.core.state import State

TRIES_MAX = 256
"""Gangs tried by one decision, placed or not."""

LOOKS_BURST, LOOKS_PER_S = 4_096, 2_048
"""Nodes of small fleets and gangs tried, at once and in the long run: 50 microseconds each, a tenth of the time."""


class Owned:
    """Places jobs on what is reserved for them. What it remembers only saves work."""

    def __init__(self, state: State, remains: Remains) -> None:
        self._state = state
        self._remains = remains
        self._seen = (-1, -1)
        self._again = (-1, Instant(-1))
        self._has_placed = False
        self._at = Instant(-1)
        self._pace = Pace(burst=LOOKS_BURST, per_s=LOOKS_PER_S)
        self._tries = 0

    def make(self, now: Instant, drafts: list[Draft], placed: set[str]) -> None:
        """Add `placed` for jobs of those for whom something is kept now, and the jobs to `placed`."""
        state, bookings = self._state, self._state.bookings
        if not bookings.in_advance:
            return
        begun = [b for b in bookings.in_advance.values() if b.kept and b.starts_at <= now and (b.queue or b.job_id)]
        if not begun:
            return
        if self._again == (state.folded, now):
            if not self._has_placed:
                return
        else:
            seen = (state.folded, bookings.grown)
            if seen == self._seen and all(booking.starts_at <= self._at for booking in begun):
                return
            if not self._pace.is_ready(now):
                self._remains.wait_until(self._pace.next_at())
                return
            self._seen = seen
        self._again, self._at, self._tries, before = (state.folded, now), now, TRIES_MAX, len(placed)
        for booking in sorted(begun, key=lambda booking: booking.turn):
            self._place_on(booking, now, drafts, placed)
        self._has_placed = len(placed) > before
        self._pace.spend(TRIES_MAX - self._tries)

    def _place_on(self, booking: Booking, now: Instant, drafts: list[Draft], placed: set[str]) -> None:
        state = self._state
        heads: Heads = {}
        if booking.job_id:
            record = state.jobs.records.get(booking.job_id)
            lane = state.line.lane_of(record) if record is not None and record.id not in placed else None
            if record is not None and lane is not None:
                add_head(heads, lane, lane.jobs.index(entry_of(record)))
        else:
            for lane in self._lanes(booking.queue):
                at = next((at for at, entry in enumerate(lane.jobs) if entry[1] not in placed), None)
                if at is not None:
                    add_head(heads, lane, at)
        if heads:
            self._pace.spend(len(booking.kept))
            trial = _Trial(state, booking, drafts, now=now, tries=self._tries)
            placed.update(record.id for record in rounds(state, heads, now, trial.attempt))
            self._tries = trial.tries

    def _lanes(self, queue: str) -> Iterator[Lane]:
        """Lanes of this queue and of those below it."""
        state = self._state
        below: dict[str, bool] = {}
        for lane in state.line.lanes.values():
            is_below = below.get(lane.queue)
            if is_below is None:
                is_below = lane.queue in state.queues.queues and queue in state.queues.path(lane.queue)
                below[lane.queue] = is_below
            if is_below:
                yield lane


class _Trial:
    """Tries jobs on one reservation. tries: how many more may be tried."""

    def __init__(self, state: State, booking: Booking, drafts: list[Draft], *, now: Instant, tries: int) -> None:
        self.tries = tries
        self._now = now
        self._state = state
        self._booking = booking
        self._drafts = drafts
        self._small = _only(state.fleet, booking)
        self._missed: set[GangRequest] = set()

    def attempt(self, record: JobRecord, _lane: Lane) -> bool:
        """Place the job there, if it fits and its quota admits it."""
        gang = record.kind.gang
        is_mine = not self._booking.job_id or self._booking.job_id == record.id
        if not self.tries or not is_mine or gang in self._missed:
            return False
        self.tries -= 1
        holds = self._small.find(gang)
        if holds is None:
            self._missed.add(gang)  # there is less and less room
            return False
        if not place_at(self._state, record, holds, self._drafts, now=self._now, opened=(self._booking.key,)):
            return False
        for hold in holds:
            self._small.hold(hold)
        return True


def _only(fleet: Fleet, booking: Booking) -> Fleet:
    """A fleet of the booking's usable nodes in which nothing is idle but what it keeps."""
    small = Fleet()
    for name, kept in sorted(booking.kept.items()):
        node = fleet.ledger.nodes.get(name)
        if node is None or not node.usable:
            continue
        small.add_node(node.shape)
        left = [0 if index in node.shape.absent else node.shape.device_milli for index in range(len(node.idle))]
        cpu_milli, memory_mib = node.shape.cpu_milli, node.shape.memory_mib
        for hold in kept:
            cpu_milli, memory_mib = cpu_milli - hold.cpu_milli, memory_mib - hold.memory_mib
            for index in hold.slot.devices:
                left[index] -= hold.slot.gpu_milli
        for hold in _taken(name, cpu_milli, memory_mib, left):
            small.hold(hold)
        for index in node.broken:
            small.set_device_usable(name, index, False)
    return small


def _taken(name: str, cpu_milli: int, memory_mib: int, left: list[int]) -> Iterator[Hold]:
    """Holds of all that is not kept."""
    if cpu_milli or memory_mib:
        yield Hold(cpu_milli, memory_mib, Place(KEPT, 0, name, (), 0))
    for index, milli in enumerate(left):
        if milli:
            yield Hold(0, 0, Place(KEPT, 0, name, (index,), milli))
