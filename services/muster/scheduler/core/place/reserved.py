"""Placement of jobs on the capacity that is reserved for them, before any other job is placed.

A job that has a reservation is placed exactly there, once all of it is kept. Jobs of an advance reservation are placed
on it while it lasts, and leave other capacity to other jobs: they are placed in a small fleet that has nothing but what
the reservation keeps. A job that fits there only together with unreserved places is placed later, by backfill. A pass
runs only if something changed.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from muster.core import Draft, Instant
from muster.placement import Fleet, GangRequest, Hold
from muster.placement import Slot as Place
from muster.scheduler.core.admit.access import Access, passable
from muster.scheduler.core.lifecycle.preflight import PlanOf
from muster.scheduler.core.order import Heads, add_head, serve_in_order
from muster.scheduler.core.place.placements import placement_drafts
from muster.scheduler.core.requeue import Pace, Requeue
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.bookings import KEPT, Booking, holds_of
from muster.scheduler.core.stores.capacity import amounts_of
from muster.scheduler.core.stores.exclusions import is_apart
from muster.scheduler.core.stores.jobs import JobRecord
from muster.scheduler.core.stores.pending_queue import PendingQueue, entry_of
from muster.schemas.job import Phase

TRIES_MAX = 256
"""Gangs tried by one decision."""

LOOKS_BURST, LOOKS_PER_S = 4_096, 2_048
"""Nodes of small fleets and gangs tried, at once and per second: 50 microseconds each, a tenth of the time."""


class ReservedPlaces:
    """Places jobs on capacity that is reserved for them. Its own state only saves work."""

    def __init__(self, state: State, requeue: Requeue, *, plan_of: PlanOf | None = None) -> None:
        self._state = state
        self._requeue = requeue
        self._plan_of = plan_of
        self._seen = (-1, -1)
        self._again = (-1, Instant(-1))
        self._has_placed = False
        self._at = Instant(-1)
        self._pace = Pace(burst=LOOKS_BURST, per_s=LOOKS_PER_S)
        self._tries = 0

    def place_reserved(self, now: Instant, drafts: list[Draft]) -> set[str]:
        """Add `placed` for jobs whose booking is complete and whose quota admits them, and return these jobs.

        A job may use bookings of other jobs; advance reservations only if it is gone before they begin.
        """
        state, bookings = self._state, self._state.bookings
        placed: set[str] = set()
        for key in tuple(bookings.complete):
            record = state.jobs.records.get(key)
            if record is None or record.reserved is None or record.phase is not Phase.QUEUED:
                continue
            if record.cancel_fact or record.is_set_aside:
                continue
            access = Access(bookings, state.queues, now)
            scope = access.scope(record)
            opened = {k for k, booking in bookings.all.items() if not (booking.is_reservation or booking.is_withhold)}
            opened |= access.keys(scope) if scope is not None else frozenset()
            if self.place_at(record, holds_of(state.fleet, record), drafts, now=now, opened=opened):
                bookings.lend(key)
                placed.add(key)
        return placed

    def place_at(
        self, record: JobRecord, holds: Sequence[Hold], drafts: list[Draft], *, now: Instant, opened: Collection[str]
    ) -> bool:
        """Propose exactly these places for a job, with these bookings open; return False if the places or quota forbid
        it.

        Bookings of drains that start after the job is gone are open too.
        """
        state, bookings = self._state, self._state.bookings
        if not holds or record.queue not in state.queues.queues or not is_apart(holds, record.job_class.avoided):
            return False
        amounts = amounts_of(record.job_class, [hold.slot for hold in holds], state.capacity.models)
        if state.queues.ceiling(record.queue, amounts, preemptible=record.job_class.preemptible) is not None:
            return False
        with bookings.opened({*opened, *passable(bookings, record, now)}):
            if not state.proposals.propose_at(record.id, holds):
                return False
        state.queues.propose(record.queue, amounts, preemptible=record.job_class.preemptible)
        drafts += placement_drafts(record, holds, ledger=state.ledger, grants=state.grants, plan_of=self._plan_of)
        return True

    def place_owners(self, now: Instant, drafts: list[Draft], placed: set[str]) -> None:
        """Add `placed` for jobs of advance reservations that have begun, and add these jobs to `placed`."""
        state, bookings = self._state, self._state.bookings
        if not bookings.in_advance:
            return
        begun = [b for b in bookings.in_advance.values() if b.kept and b.starts_at <= now and (b.queue or b.job_id)]
        if not begun:
            return
        if self._again == (state.progress.folded, now):
            if not self._has_placed:
                return
        else:
            seen = (state.progress.folded, bookings.grown)
            if seen == self._seen and all(booking.starts_at <= self._at for booking in begun):
                return
            if not self._pace.is_ready(now):
                self._requeue.wait_until(self._pace.next_at())
                return
            self._seen = seen
        self._again, self._at, self._tries, before = (state.progress.folded, now), now, TRIES_MAX, len(placed)
        for booking in sorted(begun, key=lambda booking: booking.turn):
            self._place_on(booking, now, drafts, placed)
        self._has_placed = len(placed) > before
        self._pace.spend(TRIES_MAX - self._tries)

    def _place_on(self, booking: Booking, now: Instant, drafts: list[Draft], placed: set[str]) -> None:
        state = self._state
        heads: Heads = {}
        if booking.job_id:
            record = state.jobs.records.get(booking.job_id)
            pending = state.pending.queue_of(record) if record is not None and record.id not in placed else None
            if record is not None and pending is not None:
                add_head(heads, pending, pending.jobs.index(entry_of(record)))
        else:
            for pending in self._queues(booking.queue):
                at = next((at for at, entry in enumerate(pending.jobs) if entry[1] not in placed), None)
                if at is not None:
                    add_head(heads, pending, at)
        if heads:
            self._pace.spend(len(booking.kept))
            place = partial(self.place_at, drafts=drafts, now=now, opened=(booking.key,))
            trial = _Trial(state.fleet, booking, place, tries=self._tries)
            placed.update(record.id for record in serve_in_order(state.queues, state.jobs, heads, now, trial.attempt))
            self._tries = trial.tries

    def _queues(self, queue: str) -> Iterator[PendingQueue]:
        state = self._state
        below: dict[str, bool] = {}
        for pending in state.pending.queues.values():
            is_below = below.get(pending.queue)
            if is_below is None:
                is_below = pending.queue in state.queues.queues and queue in state.queues.path(pending.queue)
                below[pending.queue] = is_below
            if is_below:
                yield pending


class _Trial:
    """Tries jobs on one reservation, at most `tries` of them."""

    def __init__(
        self, fleet: Fleet, booking: Booking, place: Callable[[JobRecord, Sequence[Hold]], bool], *, tries: int
    ) -> None:
        self.tries = tries
        self._booking = booking
        self._place = place
        self._small = _only(fleet, booking)
        self._missed: set[GangRequest] = set()

    def attempt(self, record: JobRecord, _pending: PendingQueue) -> bool:
        """Place the job on the reservation if it fits and its quota admits it."""
        gang = record.job_class.gang
        is_mine = not self._booking.job_id or self._booking.job_id == record.id
        if not self.tries or not is_mine or gang in self._missed:
            return False
        self.tries -= 1
        holds = self._small.find(gang)
        if holds is None:
            self._missed.add(gang)  # the room only shrinks
            return False
        if not self._place(record, holds):
            return False
        for hold in holds:
            self._small.hold(hold)
        return True


def _only(fleet: Fleet, booking: Booking) -> Fleet:
    """Return a fleet of the booking's usable nodes in which nothing is idle but what the booking keeps."""
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
        for hold in _not_kept(name, cpu_milli, memory_mib, left):
            small.hold(hold)
        for index in node.broken:
            small.set_device_usable(name, index, False)
    return small


def _not_kept(name: str, cpu_milli: int, memory_mib: int, left: list[int]) -> Iterator[Hold]:
    if cpu_milli or memory_mib:
        yield Hold(cpu_milli, memory_mib, Place(KEPT, 0, name, (), 0))
    for index, milli in enumerate(left):
        if milli:
            yield Hold(0, 0, Place(KEPT, 0, name, (index,), milli))
