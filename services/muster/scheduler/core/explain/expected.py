"""When a waiting job will start, as an upper bound, and the basis of the estimate in words.

Running jobs count until their latest end. The jobs served before this one are planned one after the other; a later job
never takes places that an earlier one needs. A few smaller jobs behind it are planned in front where they fit sooner,
because they may start first until the job starves. Most jobs end before their limits, so most start sooner than
estimated. Beyond PLANNED_MAX jobs in front, the start is estimated from how fast their places become free again, and
the basis says so.
"""

import itertools
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from muster.core import Instant, after
from muster.placement import DEVICE_MILLI
from muster.placement.forecast import Forecast, Outlook, Release
from muster.quota.amounts import Amounts
from muster.quota.formulas import Ceiling
from muster.scheduler.core.admit.access import Passable, gone_by, passable
from muster.scheduler.core.admit.alternatives import alternatives
from muster.scheduler.core.admit.arrivals import refusal
from muster.scheduler.core.explain.look_ahead import QuotaForecast, ServingOrder
from muster.scheduler.core.preempt.forecast import PASSES_MAX, Releases, foresee
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.exclusions import closed
from muster.scheduler.core.stores.jobs import JobRecord
from muster.schemas.facts.queue import CPU, GPU

PLANNED_MAX = 24
"""Jobs in front that are planned one by one, 3 ms each in a large fleet."""

OVERTAKING_MAX = 16
"""Jobs behind that are checked for fitting sooner."""

COUNTED_MAX = 384
"""Jobs in front that are counted one by one; beyond it their number is derived from the job's position in its queue."""

KNOWN_MAX = 1_024
"""Answers that are cached."""

NAMED_MAX = 3
"""Jobs that are named in a basis."""


class Expected(NamedTuple):
    """When the job starts at the latest, 0 if unknown, and the basis in words."""

    at: int
    basis: str


UNKNOWN = Expected(0, "")


def expected_start(state: State, record: JobRecord, now: Instant) -> Expected:
    """Return the expected start of a job that waits, or would wait if submitted. The state is unchanged afterwards."""
    if record.is_set_aside:
        return UNKNOWN
    if record.reserved is not None:
        basis = record.reserved.basis or "its places are reserved from then on"
        return Expected(max(now, record.reserved.starts_at), f"reserved: {basis}")
    job_class = record.job_class
    if record.queue not in state.queues.queues or refusal(state, record) is not None or record.cancel_fact:
        return UNKNOWN
    never = state.queues.never(record.queue, job_class.amounts_least, preemptible=job_class.preemptible)
    if never is not None or state.fleet.could_ever_fit(job_class.gang) is not None:
        return UNKNOWN
    return _passing(state, record, now)


def _passing(state: State, record: JobRecord, now: Instant) -> Expected:
    """Return the expected start; nodes that are drained later count only if the job has left by then."""
    bookings = state.bookings
    opened, found = passable(bookings, record, now), UNKNOWN
    for last in range(PASSES_MAX):
        ahead = ServingOrder(state.jobs, state.queues, state.pending, record, now)
        try:
            with bookings.opened(opened), closed(state.fleet, record.job_class.avoided):
                found = _Plan(state, record, now, opened=opened).find(ahead)
        finally:
            ahead.close()
        its = Passable(record, Instant(found.at)) if opened and found.at else None
        left = tuple(key for key in opened if its is None or its.is_open(bookings.withholds[key]))
        if left == opened:
            break
        opened = left if last < PASSES_MAX - 2 else ()
    return found


class Expectations:
    """A cache of answers, valid until a fact is folded, because users ask repeatedly."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._known: dict[str, Expected] = {}
        self._folded = -1

    def of(self, record: JobRecord, now: Instant) -> Expected:
        """Return when a waiting job starts."""
        if self._folded != self._state.progress.folded or len(self._known) >= KNOWN_MAX:
            self._known.clear()
            self._folded = self._state.progress.folded
        known = self._known.get(record.id)
        if known is None or 0 < known.at <= now:
            known = self._known[record.id] = expected_start(self._state, record, now)
        return known


class _Start(NamedTuple):
    """The earliest start of a job, with the model on which it is."""

    place: Forecast
    amounts: Amounts
    admitted_at: int
    ceiling: Ceiling | None
    """The limit that blocks the job until `admitted_at`."""

    @property
    def at(self) -> int:
        """When there are places and quota."""
        return max(self.place.at, self.admitted_at)


class _Plan:
    """One look ahead, for one job."""

    def __init__(self, state: State, record: JobRecord, now: Instant, *, opened: Collection[str]) -> None:
        self._state = state
        self._record = record
        self._now = now
        releases = Releases(state, record, now, opened=opened, is_patient=False)
        self._releases = tuple(releases.all())
        self._outlook = Outlook(state.fleet, self._releases, now=now)
        records = state.jobs.records
        ends = ((release.at, records[release.key]) for release in self._releases if release.key in records)
        self._quota = QuotaForecast(state.queues, ends, now=now)

    def find(self, ahead: ServingOrder) -> Expected:
        """Plan for the jobs in front, then for the job itself."""
        counted = list[JobRecord]()
        for record in ahead.before():
            counted.append(record)
            if len(counted) <= PLANNED_MAX:
                self._plan(record)
            elif len(counted) >= COUNTED_MAX:
                break
        if len(counted) > PLANNED_MAX:
            return self._estimate(counted, is_all=len(counted) < COUNTED_MAX)
        return self._last(ahead, len(counted))

    def _earliest(self, record: JobRecord) -> "_Start | None":
        """Return the earliest start for which there are places and quota; None without one."""
        state, found = self._state, list[_Start]()
        for one in alternatives(record, record.job_class.gang, state.queues, state.capacity):
            place, admitted = self._outlook.earliest(one.gang), self._quota.admits_at(record, one.amounts)
            if place is not None and admitted is not None:
                found.append(_Start(place, one.amounts, *admitted))
        return min(found, key=lambda start: start.at, default=None)

    def _plan(self, record: JobRecord) -> None:
        if record.reserved is not None:
            return  # its places are already kept in the fleet
        start = self._earliest(record)
        if start is not None:
            ends_at = gone_by(record, Instant(start.at))
            self._outlook.plan(start.place.holds, starts_at=start.at, ends_at=ends_at)
            self._quota.plan(record, start.amounts, ends_at=ends_at)

    def _last(self, ahead: ServingOrder, in_front: int) -> Expected:
        record, now = self._record, self._now
        start = self._earliest(record)
        if start is None:
            return UNKNOWN
        found: Forecast | None = start.place
        if start.place.at <= now and start.place.rests_on and not in_front:
            found = foresee(self._state, record, now)  # the jobs in its way cannot be preempted
        if found is None:
            return UNKNOWN
        order = f"after {_jobs(in_front)} in front of it" if in_front else ""
        if start.admitted_at > found.at:
            return Expected(start.admitted_at, _joined(_of_quota(start.ceiling), order))
        if found.at <= now:
            return Expected(now, _joined("there is room for it; it is tried in the next cycle", order))
        found, overtaking = self._overtaken(ahead, found)
        others = f"{_jobs(overtaking)} behind it may fit sooner" if overtaking else ""
        return Expected(found.at, _joined(self._of_places(found), order, others))

    def _overtaken(self, ahead: ServingOrder, found: Forecast) -> tuple[Forecast, int]:
        """Return the forecast after smaller jobs behind it took places they fit into, and the number of these jobs.

        No places are kept for the job until it starves.
        """
        record, policy = self._record, self._state.queues.policy(self._record.queue)
        kept_from = after(Instant(record.queued_at or self._now), policy.starving_after_s)
        number = 0
        for other in itertools.islice(ahead.behind(), OVERTAKING_MAX):
            if other.job_class is record.job_class or other.reserved is not None or not _is_smaller(other, record):
                continue
            start = self._earliest(other)
            if start is None or start.at >= min(found.at, kept_from):
                continue
            self._outlook.plan(start.place.holds, starts_at=start.at, ends_at=gone_by(other, Instant(start.at)))
            own = self._earliest(record)
            found = found if own is None else own.place
            number += 1
        return found, number

    def _of_places(self, found: Forecast) -> str:
        records = self._state.jobs.records
        keys = [key.partition(" ")[0] for key in found.rests_on]
        jobs = [records[key] for key in dict.fromkeys(keys) if key in records]
        if not jobs:
            return "what is kept or planned for others is free by then" if found.rests_on else "others are gone by then"
        names = ", ".join(job.job.spec.name for job in jobs[:NAMED_MAX])
        more = f" and {len(jobs) - NAMED_MAX} more" if len(jobs) > NAMED_MAX else ""
        verb = "is" if len(jobs) == 1 else "are"
        return f"{names}{more} {verb} at the end of what others must grant by then"

    # --- estimates beyond PLANNED_MAX ------------------------------------------------------------------------

    def _estimate(self, counted: Collection[JobRecord], *, is_all: bool) -> Expected:
        """Estimate the start from how fast places become free: each is taken again for one run of the jobs in front."""
        resource = GPU if self._record.job_class.amounts_least.get(GPU) else CPU
        asked = sum(record.job_class.amounts_least.get(resource, 0) for record in counted)
        number = len(counted)
        if not is_all:
            number, asked = self._all_in_front(counted, asked, resource)
        runs = [gone_by(record, self._now) - self._now for record in counted]
        at = self._turned_over(
            resource, asked + self._record.job_class.amounts_least.get(resource, 0), sum(runs) / len(runs)
        )
        if at is None:
            return UNKNOWN
        what = f"{asked / DEVICE_MILLI:g} {'GPUs' if resource == GPU else 'cores'}"
        about = "" if is_all else "about "
        basis = f"estimated: {about}{_jobs(number)} that ask for {what} are in front of it"
        return Expected(at, f"{basis}, and places come free at the bounds of those that hold them")

    def _all_in_front(self, counted: Collection[JobRecord], asked: int, resource: str) -> tuple[int, int]:
        """Return the number of jobs in front and their request, from the job's position in its queue."""
        record, store = self._record, self._state.pending
        mine = (record.rank, record.routed_seq)
        pending_queues = (pending for pending in store.queues.values() if pending.queue == record.queue)
        place = sum(other < mine for pending in pending_queues for other, _ in pending.jobs)
        served = sum(other.queue == record.queue for other in counted)
        factor = max(1.0, place / max(1, served))
        number = sum(len(pending.jobs) for pending in store.queues.values())
        most = sum(
            len(pending.jobs) * pending.job_class.amounts_least.get(resource, 0) for pending in store.queues.values()
        )
        in_front = min(number, round(len(counted) * factor))
        return in_front, max(asked, round(most * in_front / number))

    def _turned_over(self, resource: str, asked: int, run_ns: float) -> int | None:
        """Return when this amount became free in total, if each place is taken again and again for one run."""
        pairs = [(release.at, _amount(release, resource)) for release in self._releases]
        left = asked - self._idle(resource)
        if left <= 0:
            return self._now
        at = np.maximum(np.array([moment for moment, amount in pairs if amount], np.float64), self._now)
        amounts = np.array([amount for _, amount in pairs if amount], np.float64)
        if not len(amounts):
            return None
        rounds = left / float(amounts.sum())
        low, high = float(self._now), float(at.max()) + (rounds + 1) * run_ns
        for _ in range(64):
            middle = (low + high) / 2
            times = np.floor(np.maximum(middle - at, -run_ns) / max(run_ns, 1.0)) + 1
            low, high = (low, middle) if float((times * amounts).sum()) >= left else (middle, high)
        return round(high)

    def _idle(self, resource: str) -> int:
        if resource == GPU:
            return sum(totals.free_milli for totals in self._state.fleet.totals.values())
        return sum(node.cpu_milli for node in self._state.fleet.ledger.nodes.values() if node.state is not None)


def _is_smaller(one: JobRecord, other: JobRecord) -> bool:
    """Return whether `one` requests no more GPUs, so that it may fit where `other` does not."""
    return one.job_class.amounts_least.get(GPU, 0) <= other.job_class.amounts_least.get(GPU, 0)


def _amount(release: Release, resource: str) -> int:
    if resource == GPU:
        return sum(hold.slot.gpu_milli * len(hold.slot.devices) for hold in release.holds)
    return sum(hold.cpu_milli for hold in release.holds)


def _of_quota(ceiling: Ceiling | None) -> str:
    assert ceiling is not None, "what is admitted later is stopped now"
    return f"enough of what queue {ceiling.queue} and those below it hold is at its bound by then"


def _jobs(number: int) -> str:
    return "1 job" if number == 1 else f"{number} jobs"


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
