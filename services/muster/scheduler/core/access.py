"""On which bookings a job may be placed before those that they are for.

On one that begins after the job is sure to be gone: that is backfill. On an advance reservation that has begun, if the
job is among those whom it is kept for. And on its own.
"""

from bisect import bisect_left
from collections.abc import Iterable

from muster.core import Instant, after
from muster.quota.queues import QueueTree
from muster.scheduler.core.bookings import Bookings
from muster.scheduler.core.jobs import JobRecord, bound_ns

START_S = 30.0
"""So long after it is placed a gang may begin to run; its slice and its total run time count from then on."""

Door = tuple[int, tuple[str, ...]]
"""What a job may open: the bookings from this place on, latest starts last, and others by name."""


def gone_by(record: JobRecord, now: Instant) -> Instant:
    """When a waiting job, placed now, has left its place at the latest, if others ask for it then."""
    return after(bound_ns(record, now), START_S)


class Access:
    """Who may open what at one moment. Bookings that keep nothing are left out."""

    def __init__(self, bookings: Bookings, queues: QueueTree, now: Instant) -> None:
        kept = [booking for booking in bookings.all.values() if booking.kept]
        self._queues = queues
        self._now = now
        self._by_start = sorted(kept, key=lambda booking: booking.turn)
        self._starts = [booking.starts_at for booking in self._by_start]
        begun = [booking for booking in self._by_start if booking.starts_at <= now or not booking.is_reservation]
        self._begun = [booking for booking in begun if booking.queue]
        self._for_job: dict[str, tuple[str, ...]] = {}
        for booking in begun:
            if booking.job_id:
                self._for_job[booking.job_id] = (*self._for_job.get(booking.job_id, ()), booking.key)
        self._owned: dict[str, tuple[str, ...]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing is kept."""
        return not self._by_start

    def door(self, record: JobRecord) -> Door | None:
        """What this job may open; None if nothing."""
        place = bisect_left(self._starts, gone_by(record, self._now))
        owned = self._owned.get(record.queue)
        if owned is None:
            path = self._queues.path(record.queue) if self._begun else ()
            owned = self._owned[record.queue] = tuple(b.key for b in self._begun if b.queue in path)
        owned += self._for_job.get(record.id, ())
        return (place, owned) if owned or place < len(self._starts) else None

    def keys(self, door: Door) -> frozenset[str]:
        """The bookings behind a door."""
        place, owned = door
        return frozenset([*(booking.key for booking in self._by_start[place:]), *owned])

    def nodes(self, keys: Iterable[str], bookings: Bookings) -> int:
        """On how many nodes something would be opened."""
        return sum(len(bookings.all[key].kept) for key in keys)
