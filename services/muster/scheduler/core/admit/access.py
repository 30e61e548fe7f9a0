"""Access to capacity that is booked to be drained at a later time: which jobs may still use it until then.

A job may use the capacity if it is sure to have left by then. Without moving, that is the end of its total run time,
because no job is stopped. Where jobs are moved at that time, and the job allows it (it is preemptible and checkpoints),
the end of its time slice is enough: it is stopped after a checkpoint and resumes elsewhere.
"""

from bisect import bisect_left
from collections.abc import Iterable

from muster.core import NS_PER_S, Instant, after
from muster.quota.queues import QueueTree
from muster.scheduler.core.stores.bookings import Booking, Bookings
from muster.scheduler.core.stores.jobs import JobRecord, bound_ns
from muster.schemas.job import JobSpec

START_S = 30.0
"""Maximum time from placement to running; the time slice and the total run time count from then on."""


def may_be_moved(spec: JobSpec) -> bool:
    """Return whether the job may be stopped to drain a node: it is preemptible and resumes from a checkpoint."""
    return spec.preemptible and spec.checkpointing is not None


def gone_by(record: JobRecord, now: Instant) -> Instant:
    """Return when a waiting job, if placed now, has left its place at the latest when another job needs it."""
    return after(bound_ns(record, now), START_S)


def ended_by(record: JobRecord, now: Instant) -> Instant:
    """Return when a waiting job, if placed now, has ended at the latest without being stopped."""
    grace_ns = round(record.job.spec.grace_s * NS_PER_S)
    return after(Instant(now + record.left_ns() + grace_ns), START_S)


class Passable:
    """Capacity that is drained later but usable for a waiting job, if it is placed at `now`."""

    def __init__(self, record: JobRecord, now: Instant) -> None:
        self.ended_by = ended_by(record, now)
        """When the job has left capacity from which no job is moved."""
        self.left_by = gone_by(record, now) if may_be_moved(record.job.spec) else self.ended_by
        """When the job has left capacity from which jobs are moved."""

    def is_open(self, booking: Booking) -> bool:
        """Return whether the job is gone before the booking starts."""
        return booking.starts_at >= (self.left_by if booking.moves else self.ended_by)


def passable(bookings: Bookings, record: JobRecord, now: Instant) -> tuple[str, ...]:
    """Return the keys of the drain bookings that start only after the job, if placed now, is gone."""
    if not bookings.withholds:
        return ()
    its = Passable(record, now)
    return tuple(key for key, booking in bookings.withholds.items() if its.is_open(booking))


Scope = tuple[tuple[int, int, int], tuple[str, ...]]
"""The bookings that a job may open: of each sort those from an index on, latest starts last; and others by key."""


class Access:
    """Which jobs may open which bookings at one time. Bookings that keep nothing are left out.

    With `for_devices` every waiting job needs a device, so bookings on nodes without an idle or kept device are left
    out too. A campaign has a booking on every node of a full fleet, which keeps only CPU and memory there.
    """

    def __init__(self, bookings: Bookings, queues: QueueTree, now: Instant, *, for_devices: bool = False) -> None:
        effective = (b for b in bookings.all.values() if bookings.is_effective(b, for_devices=for_devices))
        kept = sorted(effective, key=lambda booking: booking.turn)
        self._queues = queues
        self._now = now
        self._sorts = _Sort(b for b in kept if not b.is_withhold), _moved(kept), _finished(kept)
        begun = [b for b in self._sorts[0].all if b.starts_at <= now or not b.is_reservation]
        self._begun = [booking for booking in begun if booking.queue]
        self._for_job: dict[str, tuple[str, ...]] = {}
        for booking in begun:
            if booking.job_id:
                self._for_job[booking.job_id] = (*self._for_job.get(booking.job_id, ()), booking.key)
        self._owned: dict[str, tuple[str, ...]] = {}

    @property
    def is_empty(self) -> bool:
        """Return whether no booking keeps anything."""
        return not any(sort.all for sort in self._sorts)

    @property
    def tells_jobs_apart(self) -> bool:
        """Return whether jobs of one pending queue may open different bookings.

        Access to drain bookings depends on more of a job than its equivalence class.
        """
        return bool(self._sorts[1].all or self._sorts[2].all)

    def scope(self, record: JobRecord) -> Scope | None:
        """Return the bookings that this job may open; None if there are none."""
        reserved, moved, finished = self._sorts
        places = reserved.from_(gone_by(record, self._now)), 0, 0
        if moved.all or finished.all:
            its = Passable(record, self._now)
            places = places[0], moved.from_(its.left_by), finished.from_(its.ended_by)
        owned = self._owned.get(record.queue)
        if owned is None:
            path = self._queues.path(record.queue) if self._begun else ()
            owned = self._owned[record.queue] = tuple(b.key for b in self._begun if b.queue in path)
        owned += self._for_job.get(record.id, ())
        is_any = any(place < len(sort.all) for place, sort in zip(places, self._sorts, strict=True))
        return (places, owned) if owned or is_any else None

    def keys(self, scope: Scope) -> frozenset[str]:
        """Return the keys of the bookings of a scope."""
        places, owned = scope
        behind = (b.key for place, sort in zip(places, self._sorts, strict=True) for b in sort.all[place:])
        return frozenset([*behind, *owned])


class _Sort:
    """Bookings of one sort, earliest start first."""

    def __init__(self, bookings: Iterable[Booking]) -> None:
        self.all = list(bookings)
        self._starts = [booking.starts_at for booking in self.all]

    def from_(self, moment: Instant) -> int:
        """Return the index of the first booking that starts at this time or later."""
        return bisect_left(self._starts, moment)


def _moved(kept: Iterable[Booking]) -> _Sort:
    """Return drain bookings from which jobs are moved away."""
    return _Sort(booking for booking in kept if booking.is_withhold and booking.moves)


def _finished(kept: Iterable[Booking]) -> _Sort:
    """Return drain bookings for which no job is stopped."""
    return _Sort(booking for booking in kept if booking.is_withhold and not booking.moves)
