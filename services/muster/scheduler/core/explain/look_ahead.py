"""The events before a job starts: which jobs are served before it, and when quota admits it.

The order is the fair-share order of the cycle, as if each job were served. Pending queues that are blocked by quota are
left out, as they are in a cycle, unless the same limit blocks the job by then: then they wait for the same quota, and
the jobs in front get it first.
"""

import heapq
from bisect import insort
from collections.abc import Iterable, Iterator

from muster.core import Instant
from muster.quota.amounts import Amounts
from muster.quota.formulas import NON_PREEMPTIBLE, Ceiling
from muster.quota.queues import QueueTree
from muster.scheduler.core.admit.quota import ceiling_of, hold_least
from muster.scheduler.core.order import FairShareOrder
from muster.scheduler.core.stores.jobs import JobBook, JobRecord
from muster.scheduler.core.stores.pending_queue import PendingQueue, Place, entry_of
from muster.scheduler.core.stores.pending_queues import PendingQueues

_Heads = list[tuple[Place, int, PendingQueue | None, int]]
"""Rank of the job, number of its pending queue, the pending queue (None: the job in question), index in it."""


class ServingOrder:
    """Jobs in the order in which they would be served. Counts their requests as held until `close`."""

    def __init__(
        self, jobs: JobBook, queues: QueueTree, pending_queues: PendingQueues, record: JobRecord, now: Instant
    ) -> None:
        self._jobs = jobs
        self._queues = queues
        self._pending_queues = pending_queues
        self._record = record
        self._order = FairShareOrder(queues, now)
        self._heads: dict[str, _Heads] = {}
        self._held: list[JobRecord] = []
        self._fill()

    def before(self) -> Iterator[JobRecord]:
        """Yield the jobs in front of the job; each counts as served when the next is requested."""
        for record in self._served():
            if record is self._record:
                return
            yield record

    def behind(self) -> Iterator[JobRecord]:
        """Yield the jobs behind the job; call it after `before` is exhausted."""
        yield from self._served()

    def close(self) -> None:
        """Undo the amounts counted as held."""
        for record in reversed(self._held):
            hold_least(self._queues, record, sign=-1)
        self._held.clear()

    # --- inside ----------------------------------------------------------------------------------------------

    def _served(self) -> Iterator[JobRecord]:
        while queue := self._order.next():
            heads = self._heads[queue]
            _, number, pending, at = heapq.heappop(heads)
            record = self._record if pending is None else self._jobs.records[pending.jobs[at][1]]
            is_asked = record is self._record
            if is_asked or not self._stands_aside(record):
                if pending is not None and at + 1 < len(pending.jobs):
                    heapq.heappush(heads, (pending.jobs[at + 1][0], number, pending, at + 1))
                if is_asked:
                    self._offer(queue)
                    yield record
                    continue
                yield record
                hold_least(self._queues, record)
                self._held.append(record)
            self._offer(queue)

    def _fill(self) -> None:
        queues = self._queues.queues
        for pending in self._pending_queues.queues.values():
            if pending.queue in queues:
                self._heads.setdefault(pending.queue, []).append((pending.jobs[0][0], pending.number, pending, 0))
        if self._pending_queues.queue_of(self._record) is None and self._record.queue in queues:
            entry = (entry_of(self._record)[0], -1, None, 0)
            self._heads.setdefault(self._record.queue, []).append(entry)
        for queue, heads in self._heads.items():
            heapq.heapify(heads)
            self._offer(queue)

    def _offer(self, queue: str) -> None:
        heads = self._heads[queue]
        if not heads:
            self._order.leave(queue)
            return
        place, _, pending, _ = heads[0]
        job_class = self._record.job_class if pending is None else pending.job_class
        self._order.offer(queue, place, job_class.amounts)

    def _stands_aside(self, record: JobRecord) -> bool:
        """Return whether quota blocks the job with a limit that does not affect the job in question."""
        ceiling = ceiling_of(self._queues, record)
        if ceiling is None:
            return False
        is_of_other = ceiling.queue not in self._queues.path(self._record.queue)
        return is_of_other or ceiling_of(self._queues, self._record) is None


class QuotaForecast:
    """Amounts that running and planned jobs will free, in order of time, by tree of queues."""

    def __init__(self, tree: QueueTree, ends: Iterable[tuple[int, JobRecord]], *, now: int) -> None:
        self._tree = tree
        self._now = now
        self._ends: dict[str, list[tuple[int, str, JobRecord, Amounts]]] = {}
        for at, record in ends:
            self._ends.setdefault(self._root(record.queue), []).append((at, record.id, record, record.counted))
        for of_tree in self._ends.values():
            of_tree.sort(key=lambda end: end[:2])

    def plan(self, record: JobRecord, amounts: Amounts, *, ends_at: int) -> None:
        """Count what the job requests in the tree until it ends at `ends_at`."""
        of_tree = self._ends.setdefault(self._root(record.queue), [])
        insort(of_tree, (ends_at, record.id, record, amounts), key=lambda end: end[:2])

    def admits_at(self, record: JobRecord, wanted: Amounts) -> tuple[int, Ceiling | None] | None:
        """Return when quota admits what the job requests, and the limit that blocks it until then; None if never."""
        tree, preemptible = self._tree, record.job_class.preemptible
        first = ceiling = tree.ceiling(record.queue, wanted, preemptible=preemptible)
        at, gone = self._now, list[tuple[JobRecord, Amounts]]()
        ends = iter(self._ends.get(self._root(record.queue), ()))
        try:
            while ceiling is not None:
                lacking = wanted.get(ceiling.resource, 0) - ceiling.available
                while lacking > 0:
                    end = next(ends, None)
                    if end is None:
                        return None
                    moment, _, other, amounts = end
                    tree.hold(other.queue, amounts, sign=-1, preemptible=other.job_class.preemptible)
                    gone.append((other, amounts))
                    at = max(at, moment)
                    if self._relieves(other, ceiling):
                        lacking -= amounts.get(ceiling.resource, 0)
                ceiling = tree.ceiling(record.queue, wanted, preemptible=preemptible)
        finally:
            for other, amounts in reversed(gone):
                tree.hold(other.queue, amounts, preemptible=other.job_class.preemptible)
        return at, first

    def _relieves(self, other: JobRecord, ceiling: Ceiling) -> bool:
        """Return whether the limit counts the amounts that this job frees."""
        if ceiling.reason == NON_PREEMPTIBLE and other.job_class.preemptible:
            return False
        return ceiling.queue in self._tree.path(other.queue)

    def _root(self, queue: str) -> str:
        return self._tree.path(queue)[-1]
