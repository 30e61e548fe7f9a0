"""Objects that the gateway refused are asked for again: after a while, or when they or their queue changed.

A refusal speaks of a moment - the queue was not there, it was closed, no node was large enough - and objects stay. Each
time is a fact in two logs, so the waits double up to AGAIN_S_MAX, and grow with the number of those that wait: all of
them together ask at most PER_S times a second, but for a burst when their queue appears.
"""

import heapq
from collections.abc import Callable, Container, Iterator

from muster.agent.core.workloads.records import Workload
from muster.core import Instant, after

AGAIN_S, AGAIN_S_MAX = 15.0, 600.0
"""Until a refused object is asked for again: the first time, and at most, as long as few wait."""
PER_S = 2.0
SOON_S = 2.0
"""From a refusal, or a change of the queue, to the next wish: whoever judges it learns of the same change meanwhile."""


class Refusals:
    """The moments at which refused ones are due. records: of all workloads, by uid. views: uids of objects as seen.

    Of an object that is not seen no moment is kept: who only folds would never take it out.
    """

    def __init__(self, records: dict[str, Workload], views: Container[str]) -> None:
        self._records = records
        self._views = views
        self._due: list[tuple[Instant, str]] = []
        self._by_queue: dict[str, dict[str, None]] = {}
        self._count = 0

    def add(self, record: Workload, at: Instant) -> None:
        """It was refused at this moment, once more."""
        record.tries += 1
        record.refused_at = at
        wait_s = min(AGAIN_S_MAX, AGAIN_S * 2.0 ** min(record.tries - 1, 16)) + self._count / PER_S
        record.again_at = after(at, wait_s)
        self.restore(record)

    def restore(self, record: Workload) -> None:
        """It waits, as a state fact says."""
        uids = self._by_queue.setdefault(record.asked.spec.queue_name, {})
        self._count += record.uid not in uids
        uids[record.uid] = None
        if record.uid in self._views:
            self.look_at(record)

    def look_at(self, record: Workload) -> None:
        """Its object is there: its moments count."""
        for moment in (Instant(record.again_at), after(Instant(record.refused_at), SOON_S)):
            heapq.heappush(self._due, (moment, record.uid))

    def remove(self, record: Workload) -> None:
        """It waits no more."""
        queue = record.asked.spec.queue_name
        uids = self._by_queue.get(queue, {})
        if record.uid in uids:
            del uids[record.uid]
            self._count -= 1
        if not uids:
            self._by_queue.pop(queue, None)

    def queue_changed(self, queue: str, at: Instant) -> None:
        """What was refused there may not be now."""
        for uid in self._by_queue.get(queue, ()):
            record = self._records[uid]
            record.again_at = again_at = min(Instant(record.again_at), after(at, SOON_S))
            if uid in self._views:
                heapq.heappush(self._due, (again_at, uid))

    def forget_views(self) -> None:
        """Nothing is seen any more: `look_at` comes for each that is seen again."""
        self._due.clear()

    def come_due(self, now: Instant) -> Iterator[str]:
        """Uids to look at, since a moment of theirs has come."""
        while self._due and self._due[0][0] <= now:
            yield heapq.heappop(self._due)[1]

    def next_change(self, waits: Callable[[str], bool]) -> Instant | None:
        """The next such moment of one that still waits. waits: whether there is anything to do about this uid."""
        while self._due and not waits(self._due[0][1]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None
