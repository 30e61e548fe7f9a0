"""The earliest time and place for a waiting job, given how long other jobs may run and what is already booked.

A running job counts until its bound: the end of its time slice if it is preemptible and the waiting job may take its
place then, else the end of its total run time. A booking stays until its user is sure to be gone again, and what
becomes free on it until then goes to the booking (conservative backfill). Capacity that is drained for a service counts
as never free again; before the drain it is used by jobs that are gone by then.
"""

from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter

from muster.core import NS_PER_S, Instant, after
from muster.placement import GangRequest, Hold
from muster.placement.forecast import Forecast, Release, earliest
from muster.scheduler.core.admit.access import START_S, Passable, gone_by, passable
from muster.scheduler.core.admit.alternatives import alternatives
from muster.scheduler.core.preempt.rules import Rules, Wanting
from muster.scheduler.core.preempt.standing import shares_up
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.bookings import Booking, Bookings
from muster.scheduler.core.stores.exclusions import closed
from muster.scheduler.core.stores.jobs import JobRecord
from muster.schemas.job import Phase

_START_NS = round(START_S * NS_PER_S)


def foresee(state: State, record: JobRecord, now: Instant) -> Forecast | None:
    """Return when and where the job fits at the latest; None if it does not fit even on an empty fleet.

    The first attempt ignores later advance reservations, and is valid if the job is gone before they start; the second
    one plans around them. If the job would fit now but was not placed, the forecast depends on jobs that cannot be
    preempted: these count until the end of their total run time.
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
"""Passes that leave out drains that the job would delay; the last pass leaves out all of them."""


def _foresee_passing(state: State, record: JobRecord, now: Instant, *, opened: Sequence[str]) -> Forecast | None:
    """Return the forecast of `_foresee`; nodes that are drained later count only if the job has left by then.

    With fewer nodes the job never starts sooner, so drains that the job would delay at the time found stay left out.
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
    gangs, found = _gangs(state, record), None
    with state.bookings.opened(opened), closed(state.fleet, record.job_class.avoided):
        for is_patient in (False, True):
            releases = tuple(Releases(state, record, now, opened=opened, is_patient=is_patient).all())
            times = (earliest(state.fleet, gang, releases, now=now) for gang in gangs)
            found = min((time for time in times if time is not None), key=attrgetter("at"), default=None)
            if found is None or found.at > now or not found.rests_on:
                break
    return found


def _gangs(state: State, record: JobRecord) -> Sequence[GangRequest]:
    """Return the requests that quota admits now, with the minimum replicas; the job's own if it admits none."""
    gang, queues = record.job_class.gang.least, state.queues
    if record.queue not in queues.queues:
        return (gang,)
    preemptible = record.job_class.preemptible
    found = alternatives(record, gang, queues, state.capacity)
    admitted = [one for one in found if queues.ceiling(record.queue, one.amounts, preemptible=preemptible) is None]
    return [one.gang for one in admitted] or (gang,)


def _is_gone_before(bookings: Bookings, record: JobRecord, found: Forecast, keys: Collection[str]) -> bool:
    """Return whether the job, started at the time found, leaves its nodes before these bookings start."""
    gone = found.at + gone_by(record, Instant(0))
    nodes = {hold.slot.node for hold in found.holds}
    kept = (bookings.all[key] for key in keys)
    return all(booking.starts_at >= gone or nodes.isdisjoint(booking.wants) for booking in kept)


class Releases:
    """Future releases of capacity, for one waiting job. With `is_patient`, jobs past their slice stay to their end."""

    def __init__(
        self, state: State, record: JobRecord, now: Instant, *, opened: Collection[str], is_patient: bool
    ) -> None:
        self._state = state
        self._avoided = record.job_class.avoided
        self._now = now
        self._is_patient = is_patient
        self._booked = [b for key, b in state.bookings.all.items() if key not in opened]
        self._contested: dict[str, list[Booking]] = {}  # by node, the bookings that lack something there
        for booking in self._booked:
            for name in booking.lacking:
                self._contested.setdefault(name, []).append(booking)
        self._until = {booking.key: self._end_of(booking) for booking in self._booked}
        before = shares_up(state.queues, record.queue)
        self._rules = {
            starves: Rules(
                state.queues,
                Wanting(record, record.job_class.amounts_least, record.job_class.gang.least, starves=starves),
                {},
                before,
            )
            for starves in (False, True)
        }
        self._starves_at = after(Instant(record.queued_at or now), state.queues.policy(record.queue).starving_after_s)
        self._reach: dict[tuple[str, bool], int] = {}

    def all(self) -> Iterator[Release]:
        """Yield the releases of jobs, of proposals of this decision, and of bookings."""
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
        """Yield the releases of holds; capacity that is booked becomes free only after the bookings end."""
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
        name = hold.slot.node
        for booking in self._contested.get(name, ()):
            want = booking.wants[name]
            if want.whole or not hold.slot.devices or not {i for i, _ in want.devices}.isdisjoint(hold.slot.devices):
                yield booking

    def _bound(self, record: JobRecord) -> int:
        """Return until when a job may keep its place from the waiting job (as `bound_ns`, if it may be preempted)."""
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
        """Return whether the waiting job may take this job's place after its time slice."""
        key = record.queue, starves
        reach = self._reach.get(key)
        if reach is None:
            reach = self._reach[key] = self._rules[starves].reach(record.queue)
        return record.effective_priority < reach

    def _end_of(self, booking: Booking) -> int:
        if booking.ends_at:
            return booking.ends_at
        record = self._state.jobs.records.get(booking.key)
        begins = Instant(max(self._now, booking.starts_at))
        return after(begins, START_S) if record is None else gone_by(record, begins)
