"""All pending queues: which are worth trying now, and which have jobs whose reason has to be reported.

A blocked pending queue is not tried until its block may be over (see `pending_queue`), so thousands of waiting jobs
cost nothing while nothing changes, and little when something does. Reasons are found only when they are reported.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator

from muster.core import Instant
from muster.placement.rooms import Rooms
from muster.quota.queues import QueueTree
from muster.scheduler.core.stores.jobs import EquivalenceClass, JobRecord
from muster.scheduler.core.stores.pending_queue import CapacityBlocked, PendingQueue, QuotaBlock, QuotaBlocked, entry_of


class ReasonsDue:
    """Blocked pending queues whose reason has to be found and reported, now or later."""

    def __init__(self) -> None:
        self.now: dict[PendingQueue, None] = {}
        """Pending queues whose jobs may need a report."""
        self.epoch = 0
        """Grows when reasons may have changed."""
        self.is_out_of_date = False
        """Whether reasons may have changed since `explain_again`."""
        self._explained: dict[PendingQueue, None] = {}
        self._later: list[tuple[int, int, PendingQueue]] = []

    def add(self, pending: PendingQueue) -> None:
        """Find the reason of a pending queue again."""
        self._explained.pop(pending, None)
        pending.due = 0
        self.now[pending] = None

    def remove(self, pending: PendingQueue) -> None:
        """Remove a pending queue in which no job is left."""
        self.now.pop(pending, None)
        self._explained.pop(pending, None)
        pending.due = 0

    def wake(self, now: Instant) -> None:
        """Find the reasons of pending queues that were deferred until now."""
        while self._later and self._later[0][0] <= now:
            due, _, pending = heapq.heappop(self._later)
            if pending.due == due:
                pending.due = 0
                self.now[pending] = None

    def put_off(self, pending: PendingQueue, due: Instant) -> None:
        """Defer a pending queue until it is due."""
        del self.now[pending]
        if pending.due != due:
            pending.due = due
            heapq.heappush(self._later, (due, pending.number, pending))

    def explained(self, pending: PendingQueue) -> None:
        """Skip a pending queue whose jobs have all their reports, until something changes."""
        del self.now[pending]
        if pending.is_blocked:
            self._explained[pending] = None

    def explain_again(self) -> None:
        """Find the reasons of all explained pending queues again."""
        self.now.update(self._explained)
        self._explained.clear()
        self.is_out_of_date = False

    def next_due(self) -> Instant | None:
        """Return when the first deferred pending queue is due."""
        while self._later and self._later[0][2].due != self._later[0][0]:
            heapq.heappop(self._later)
        return Instant(self._later[0][0]) if self._later else None

    def begin_epoch(self) -> None:
        """Note that any reason may have changed."""
        self.epoch += 1
        self.is_out_of_date = bool(self._explained)


class PendingQueues:
    """All pending queues, by queue and equivalence class."""

    def __init__(self, rooms: Rooms, tree: QueueTree) -> None:
        self.queues: dict[tuple[str, EquivalenceClass], PendingQueue] = {}
        self.open: dict[PendingQueue, None] = {}
        """Pending queues worth trying: never tried, or their block is over."""
        self.unfinished = False
        """Whether the last decision left pending queues untried."""
        self.reasons = ReasonsDue()
        self._tree = tree
        self._quota_blocked = QuotaBlocked()
        self._capacity_blocked = CapacityBlocked(rooms)
        self._is_reopened = False
        self._judged: dict[PendingQueue, None] = {}
        self._numbers = 0
        self._version = -1
        self._withdrawn = 0
        self._generation = -1

    # --- waiting jobs ---------------------------------------------------------------------------------------

    def add(self, record: JobRecord) -> None:
        """Add the job at its place."""
        key = (record.queue, record.job_class)
        pending = self.queues.get(key)
        if pending is None:
            self._numbers += 1
            pending = self.queues[key] = PendingQueue(record.queue, record.job_class, number=self._numbers)
            self.open[pending] = None
        entry = entry_of(record)
        if not pending.jobs or pending.jobs[-1] < entry:
            pending.jobs.append(entry)
        elif not pending.stands(entry):
            insort(pending.jobs, entry)
            self._refile(pending)

    def remove(self, record: JobRecord) -> None:
        """Remove the job."""
        pending = self.queues.get((record.queue, record.job_class))
        entry = entry_of(record)
        if pending is None or not pending.stands(entry):
            return
        del pending.jobs[bisect_left(pending.jobs, entry)]
        pending.unreported.pop(record.id, None)
        if not pending.jobs:
            self._unblock(pending)
            del self.queues[record.queue, record.job_class]
            self.open.pop(pending, None)
            self.reasons.remove(pending)
        elif pending.is_blocked:
            self._refile(pending)
            self.reasons.add(pending)  # another job may be first now

    def queue_of(self, record: JobRecord) -> PendingQueue | None:
        """Return the pending queue in which the job waits; None if it does not wait."""
        pending = self.queues.get((record.queue, record.job_class))
        return pending if pending is not None and pending.stands(entry_of(record)) else None

    def want_reason(self, record: JobRecord) -> None:
        """Request a report of why a job waits."""
        pending = self.queues.get((record.queue, record.job_class))
        if pending is not None:
            pending.unreported[record.id] = None
            if pending.is_blocked:
                self.reasons.add(pending)

    def reported(self, record: JobRecord) -> None:
        """Note that the reason of the job was reported."""
        pending = self.queues.get((record.queue, record.job_class))
        if pending is not None:
            pending.unreported.pop(record.id, None)

    # --- pending queues to try ---------------------------------------------------------------------------

    def refresh(self, *, version: int, withdrawn: int, generation: int) -> None:
        """Find the pending queues whose block may be over.

        `version` is the fleet's, `withdrawn` counts proposals ever retracted, and `generation` is of jobs, queues and
        nodes.
        """
        if self._is_reopened:
            self._is_reopened = False
            for pending in self.queues.values():
                self._reopen(pending)
            self.reasons.begin_epoch()
        judged, self._judged = self._judged, {}
        if withdrawn != self._withdrawn:  # the same decision is made again, so blocks found by the last one are dropped
            for pending in judged:
                if pending.is_blocked:
                    self._reopen(pending)
        self._reopen_dependent_on_place(generation, withdrawn)
        relieved = self._tree.relieved
        is_news = version != self._version or withdrawn != self._withdrawn or bool(relieved) or self.unfinished
        if not is_news:
            self._capacity_blocked.hopes = {}
            self._quota_blocked.relieve((), self._tree)
            return
        if withdrawn != self._withdrawn:
            self._quota_blocked.relieve_all(self._tree)
        else:
            self._quota_blocked.relieve(relieved, self._tree)
        self._capacity_blocked.hopes = {}
        if version != self._version or self.unfinished:
            self._capacity_blocked.hope(for_all=True)
        self._version, self._withdrawn, self.unfinished = version, withdrawn, False
        relieved.clear()
        self.reasons.begin_epoch()

    def worth_trying(self) -> Iterator[tuple[str, Iterator[PendingQueue]]]:
        """Yield queues with their pending queues, in order, for which there may be room or quota again.

        In each group of pending queues, one is worth trying only if the one before it was.
        """
        yield from self._capacity_blocked.hopeful()
        yield from self._quota_blocked.hopeful()

    def narrow(self) -> None:
        """Drop the classes whose room was taken by the placements since `refresh`."""
        self._capacity_blocked.hope(for_all=False)

    @property
    def has_room_for_any(self) -> bool:
        """Whether there may be room for any pending queue that is blocked by capacity."""
        return bool(self._capacity_blocked.hopes)

    def reopen_queue(self, queue: str) -> None:
        """Try the pending queues of a queue that was just created."""
        for pending in self._quota_blocked.of_queue(queue):
            self._reopen(pending)

    def reopen(self) -> None:
        """Try all pending queues again at the next `refresh`, whatever blocks them."""
        self._is_reopened = True

    def may_fit(self, pending: PendingQueue) -> bool:
        """Return whether it is worth trying: it has enough room and quota, and was not just refused."""
        quota = pending.quota_block
        if quota is not None and quota.resource:
            left = self._tree.available(pending.queue, quota.resource, preemptible=pending.job_class.preemptible)
            return left >= quota.need
        capacity = pending.capacity_block or self._capacity_blocked.of_class(pending.job_class)
        if capacity is None:
            return True
        if capacity.refused == self._version:
            return False
        return pending.capacity_block is None or self._capacity_blocked.has_room(capacity)

    def block_on_capacity(self, pending: PendingQueue, *, tried: bool = True) -> None:
        """Block a pending queue for whose first job the fleet has no room."""
        if pending.capacity_block is None:
            self._unblock(pending)
            pending.capacity_block = self._capacity_blocked.add(pending)
            self._blocked(pending)
        if tried:
            pending.capacity_block.refused = self._version

    def exhausted(self, pending: PendingQueue) -> None:
        """Reopen a pending queue all of whose jobs were placed: a new job may find room too."""
        if pending.is_blocked:
            self._reopen(pending)

    def block_on_quota(self, pending: PendingQueue, block: QuotaBlock) -> None:
        """Block a pending queue whose first job would break a quota, or whose queue does not exist."""
        self._unblock(pending)
        pending.quota_block = block
        self._quota_blocked.add(pending, block, self._tree)
        self._blocked(pending)

    def may_be_retried(self, pending: PendingQueue) -> bool:
        """Return whether a pending queue that is blocked by capacity has room now and was not tried yet."""
        block = pending.capacity_block
        if block is None or not self._capacity_blocked.has_room(block):
            return False
        return block.refused != self._version or len(pending.job_class.gang.groups) == 1

    # --- inside ------------------------------------------------------------------------------------------

    def _reopen_dependent_on_place(self, generation: int, withdrawn: int) -> None:
        """Try pending queues again that another place may help: the place found also changes with what is taken."""
        is_news, self._generation = generation != self._generation, generation
        if not is_news and withdrawn == self._withdrawn:
            return
        for pending in self._quota_blocked.dependent_on_place():
            if is_news or (pending.quota_block is not None and pending.quota_block.is_provisional):
                self._reopen(pending)

    def _blocked(self, pending: PendingQueue) -> None:
        pending.was_blocked = True
        self._judged[pending] = None
        pending.why_epoch = -1
        self.open.pop(pending, None)
        self.reasons.add(pending)

    def _reopen(self, pending: PendingQueue) -> None:
        self._unblock(pending)
        self.open[pending] = None

    def _unblock(self, pending: PendingQueue) -> None:
        capacity_block, quota_block = pending.capacity_block, pending.quota_block
        pending.capacity_block = pending.quota_block = None
        if capacity_block is not None:
            self._capacity_blocked.remove(pending, capacity_block)
        if quota_block is not None:
            self._quota_blocked.remove(pending, quota_block)

    def _refile(self, pending: PendingQueue) -> None:
        if pending.capacity_block is not None:
            self._capacity_blocked.refile(pending)
        elif pending.quota_block is not None:
            self._quota_blocked.refile(pending, pending.quota_block)
