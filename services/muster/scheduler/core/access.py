"""On which bookings a job may be placed before those that they are for.

On one that begins after the job is sure to be gone: that is backfill. On an advance reservation that has begun, if the
job is among those whom it is kept for. And on its own. What is to be free for a service is open as `planned` says.
"""

from bisect import bisect_left
from collections.abc import Iterable

from muster.core import Instant
from muster.quota.queues import QueueTree
from muster.scheduler.core.bookings import Booking, Bookings
from muster.scheduler.core.jobs import JobRecord
from muster.scheduler.core.planned import Passable, gone_by

Door = tuple[tuple[int, int, int], tuple[str, ...]]
"""What a job may open: the bookings from these places on, by sort, latest starts last; and others by name."""


class Access:
    """Who may open what at one moment. Bookings that keep nothing, whatever else is open, are left out."""

    def __init__(self, bookings: Bookings, queues: QueueTree, now: Instant) -> None:
        kept = sorted((b for b in bookings.all.values() if bookings.is_felt(b)), key=lambda booking: booking.turn)
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
        """Whether nothing is kept."""
        return not any(sort.all for sort in self._sorts)

    @property
    def tells_jobs_apart(self) -> bool:
        """Whether jobs of one lane may open different things: what is to be free for services depends on more of a job
        than others have to reckon with.
        """
        return bool(self._sorts[1].all or self._sorts[2].all)

    def door(self, record: JobRecord) -> Door | None:
        """What this job may open; None if nothing."""
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

    def keys(self, door: Door) -> frozenset[str]:
        """The bookings behind a door."""
        places, owned = door
        behind = (b.key for place, sort in zip(places, self._sorts, strict=True) for b in sort.all[place:])
        return frozenset([*behind, *owned])


class _Sort:
    """Bookings of one sort, the earliest first."""

    def __init__(self, bookings: Iterable[Booking]) -> None:
        self.all = list(bookings)
        self._starts = [booking.starts_at for booking in self.all]

    def from_(self, moment: Instant) -> int:
        """The place of the first that begins at this moment or later."""
        return bisect_left(self._starts, moment)


def _moved(kept: Iterable[Booking]) -> _Sort:
    """To be free for services, with jobs moved away."""
    return _Sort(booking for booking in kept if booking.is_withhold and booking.moves)


def _finished(kept: Iterable[Booking]) -> _Sort:
    """To be free for services, with nobody stopped for it."""
    return _Sort(booking for booking in kept if booking.is_withhold and not booking.moves)
