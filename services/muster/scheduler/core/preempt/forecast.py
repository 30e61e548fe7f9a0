"""The earliest moment and place for a job that waits, given how long the others may stay and what is booked already.

A running job is counted on by its bound: the end of its slice if it may be preempted and the one that waits would be
entitled to its place then, else the end of its total run time. What is booked stays booked until whoever it is for is
sure to be gone again, and what comes free on it until then goes to the booking (conservative backfill). What is to be
free for a service never comes free again as far as is known; before its moment it is used by who is gone by then.
"""

from collections.abc import Collection, Iterator, Sequence

from muster.core import NS_PER_S, Instant, after
from muster.placement import Hold
from muster.placement.forecast import Forecast, Release, earliest
from muster.scheduler.core.admit.access import START_S, Passable, gone_by, passable
from muster.scheduler.core.preempt.rules import Rules, Wanting
from muster.scheduler.core.preempt.standing import shares_up
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.bookings import Booking, Bookings
from muster.scheduler.core.stores.exclusions import closed
from muster.scheduler.core.stores.jobs import JobRecord
from muster.schemas.job import Phase

_START_NS = round(START_S * NS_PER_S)


def foresee(state: State, record: JobRecord, now: Instant) -> Forecast | None:
    """When and where the job fits at the latest; None if not even when everybody has gone.

    First as if what people reserved for later were not there, which stands if the job is gone before; then around it.
    A moment that has come, though the job was not placed, rests on jobs that cannot be made to go: then these are
    counted on only by their total run time.
    """
    bookings = state.bookings
    own = (record.id,) if record.id in bookings.all else ()
    late = tuple(key for key, booking in bookings.in_advance.items() if booking.starts_at > now)
    if late:
        found = _foresee_passing(state, record, now, opened=(*own, *late))
        if found is not None and _is_gone_before(bookings, record, found, late):
            return found
    return _foresee_passing(state, record, now, opened=own)


PASSES_MAX = 4
"""Times that is looked again without what the job would be in the way of; then all that is to be free is left out."""


def _foresee_passing(state: State, record: JobRecord, now: Instant, *, opened: Sequence[str]) -> Forecast | None:
    """As `_foresee`, on nodes that services want free only if the job has left by then.

    With fewer nodes it never begins sooner, so what it would be in the way of at the moment found is left out for good.
    """
    withholds = state.bookings.withholds
    usable, found = passable(state.bookings, record, now), None
    for _ in range(PASSES_MAX):
        found = _foresee(state, record, now, opened=(*opened, *usable))
        if not usable or found is None:
            return found
        its = Passable(record, Instant(found.at))
        left = tuple(key for key in usable if its.is_open(withholds[key]))
        nodes = {hold.slot.node for hold in found.holds}
        if all(nodes.isdisjoint(withholds[key].wants) for key in usable if key not in left):
            return found
        usable = left
    return _foresee(state, record, now, opened=opened)


def _foresee(state: State, record: JobRecord, now: Instant, *, opened: Collection[str]) -> Forecast | None:
    gang = record.job_class.gang
    gang = gang.limited([group.replicas_least for group in gang.groups])
    found: Forecast | None = None
    with state.bookings.opened(opened), closed(state.fleet, record.job_class.avoided):
        for is_patient in (False, True):
            releases = Releases(state, record, now, opened=opened, is_patient=is_patient)
            found = earliest(state.fleet, gang, tuple(releases.all()), now=now)
            if found is None or found.at > now or not found.rests_on:
                break
    return found


def _is_gone_before(bookings: Bookings, record: JobRecord, found: Forecast, keys: Collection[str]) -> bool:
    """Whether the job, begun at that moment, leaves its nodes before these bookings begin."""
    gone = found.at + gone_by(record, Instant(0))
    nodes = {hold.slot.node for hold in found.holds}
    kept = (bookings.all[key] for key in keys)
    return all(booking.starts_at >= gone or nodes.isdisjoint(booking.wants) for booking in kept)


class Releases:
    """What comes free when, for one job that waits. is_patient: those over their slice stay as long as they may."""

    def __init__(
        self, state: State, record: JobRecord, now: Instant, *, opened: Collection[str], is_patient: bool
    ) -> None:
        self._state = state
        self._avoided = record.job_class.avoided
        self._now = now
        self._is_patient = is_patient
        self._booked = [b for key, b in state.bookings.all.items() if key not in opened]
        self._contested: dict[str, list[Booking]] = {}  # by node, those that want more of it than they have
        for booking in self._booked:
            for name in booking.lacking:
                self._contested.setdefault(name, []).append(booking)
        self._until = {booking.key: self._end_of(booking) for booking in self._booked}
        before = shares_up(state.queues, record.queue)
        self._rules = {
            starves: Rules(state.queues, Wanting(record, record.job_class.amounts_least, starves=starves), {}, before)
            for starves in (False, True)
        }
        self._starves_at = after(Instant(record.queued_at or now), state.queues.policy(record.queue).starving_after_s)
        self._reach: dict[tuple[str, bool], int] = {}

    def all(self) -> Iterator[Release]:
        """Of jobs, of proposals of this decision, and of bookings."""
        state = self._state
        for booking in self._booked:
            if booking.is_withhold:
                continue
            kept = [hold for holds in booking.kept.values() for hold in holds]
            yield from self._split(f"booked {booking.key}", self._until[booking.key], kept)
        for job_id, holds in state.proposals.holds.items():
            bound = gone_by(state.jobs.records[job_id], self._now)
            yield from self._split(job_id, bound, holds)
        by_job: dict[str, Sequence[Hold]] = {}
        avoided = self._avoided
        for name, node in state.nodes.items():
            if node.description is None or name in avoided:
                continue
            for job_id in node.jobs:
                held = node.entered(job_id)
                known = by_job.get(job_id)
                by_job[job_id] = held if known is None else [*known, *held]
        records, contested = state.jobs.records, self._contested
        for job_id, held in by_job.items():
            at = self._bound(records[job_id])
            if contested and any(hold.slot.node in contested for hold in held):
                yield from self._split(job_id, at, held)
            else:
                yield Release(job_id, at, tuple(held))

    def _split(self, job_id: str, bound: int, holds: Sequence[Hold]) -> Iterator[Release]:
        """What is held where others have booked comes free only after these."""
        by_moment: dict[int, list[Hold]] = {}
        for hold in holds:
            claims = list(self._claims(hold))
            if any(claim.is_withhold for claim in claims):
                continue
            at = max((self._until[b.key] for b in claims), default=0)
            by_moment.setdefault(max(bound, at), []).append(hold)
        for at, parts in by_moment.items():
            yield Release(job_id if at == bound else f"{job_id} until {at}", at, tuple(parts))

    def _claims(self, hold: Hold) -> Iterator[Booking]:
        """Bookings that take what this hold leaves."""
        name = hold.slot.node
        for booking in self._contested.get(name, ()):
            want = booking.wants[name]
            if want.whole or not hold.slot.devices or not {i for i, _ in want.devices}.isdisjoint(hold.slot.devices):
                yield booking

    def _bound(self, record: JobRecord) -> int:
        """Until when a job that holds something may keep it from the one that waits (as `bound_ns`, if entitled)."""
        now, spec = self._now, record.job.spec
        grace_ns = round(spec.grace_s * NS_PER_S)
        if record.phase is Phase.STOPPING:
            return now + grace_ns
        begins = record.running_at or now + _START_NS
        end = begins + record.left_ns()
        if spec.preemptible and self._is_entitled(record, starves=True):
            slice_end = begins + round(record.min_slice_s * NS_PER_S)
            if not self._is_entitled(record, starves=False):
                slice_end = max(slice_end, self._starves_at)
            if slice_end > now or not self._is_patient:
                end = min(end, slice_end)
        return max(now, end) + grace_ns

    def _is_entitled(self, record: JobRecord, *, starves: bool) -> bool:
        """Whether the one that waits may take the place of this one after its slice, as things are."""
        key = record.queue, starves
        reach = self._reach.get(key)
        if reach is None:
            reach = self._reach[key] = self._rules[starves].reach(record.queue)
        return record.effective_priority < reach

    def _end_of(self, booking: Booking) -> int:
        """When a booking leaves its places again."""
        if booking.ends_at:
            return booking.ends_at
        record = self._state.jobs.records.get(booking.key)
        begins = Instant(max(self._now, booking.starts_at))
        return after(begins, START_S) if record is None else gone_by(record, begins)
