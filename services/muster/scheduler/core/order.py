"""The order of jobs: by rank within a queue, by fair share between queues.

Within a queue the job with the earliest rank comes first. A rank is a time in nanoseconds:

    rank = submission time - CLASS_S * priority - SIZE_S * log2(1 + GPUs)
        + USED_S * the principal's part of the decayed usage of the queue's jobs

All jobs age at the same speed, so a rank needs no term for age, and the order of two jobs never changes. A queue of
order `fifo` uses the submission time alone. A job keeps its rank when it is queued again, held and released; only
another priority changes it, by as much as that priority would have changed it at submission.

Between queues the fair-share order is a tournament down the tree of queues. From the cluster down, each queue picks one
of the queues below it or its own jobs: first the one with the least share, with its next job and its past usage added;
then the least total usage by weight; then the earliest next job. A queue of order `fifo` picks the earliest next job. A
queue's own jobs count as one more child, of weight 1 and without quota.

Only queues that offer a job take part. The offer of a queue and its keys are kept until a job is placed below it. So a
placement costs work for each level of its tree and the logarithm of the queues there, however many jobs wait.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from muster.core import NS_PER_S, Instant
from muster.placement import DEVICE_MILLI
from muster.quota.amounts import Amounts
from muster.quota.formulas import Cell
from muster.quota.policy import DEPTH_MAX, Policy
from muster.quota.queues import QueueTree
from muster.quota.shares import skips
from muster.quota.tree import QueueRecord
from muster.scheduler.core.stores.jobs import JobBook, JobRecord
from muster.scheduler.core.stores.pending_queue import PendingQueue, Place
from muster.schemas.facts.queue import GPU, QueueOrder
from muster.schemas.job import Job

CLASS_S = 600.0
"""Seconds by which one point of priority brings a job forward."""

SIZE_S = 60.0
"""Seconds by which a job comes forward each time that its GPUs double, because large jobs are hard to place."""

USED_S = 3_600.0
"""Seconds by which a principal's jobs come later if the principal caused all of the queue's decayed usage."""


def rank(job: Job, policy: Policy, *, came_at: int, used: float) -> int:
    """Return the job's rank. `used` is its principal's part of the queue's decayed usage, 0 to 1."""
    if policy.order is QueueOrder.FIFO:
        return came_at
    gpus = job.spec.gpu_milli_total / DEVICE_MILLI
    earlier_s = CLASS_S * job.spec.priority + SIZE_S * math.log2(1 + gpus) - USED_S * used
    return came_at - round(earlier_s * NS_PER_S)


def moved(known: int, policy: Policy, *, was: int, priority: int) -> int:
    """Return a job's rank after its priority changed."""
    if policy.order is QueueOrder.FIFO:
        return known
    return known - round(CLASS_S * (priority - was) * NS_PER_S)


Key = tuple[float | Place, float | str, Place, str]
"""Sort key, least first. At a queue of order `fifo` only the rank and the name differ."""

_NO_PLACE: Place = (0, 0)


class _Row:
    """One resource of one contender, with values that do not change during a decision."""

    __slots__ = ("average", "capacity", "cell", "lendable")

    def __init__(self, cell: Cell, *, average: float, lendable: int, capacity: int) -> None:
        self.cell = cell
        self.average = average
        self.lendable = max(1, lendable)
        self.capacity = max(1, capacity)


class Contender:
    """A queue, the own jobs of a queue that has queues below it (`is_own`), or the cluster (`record` None)."""

    __slots__ = (
        "above", "extra", "heap", "is_fifo", "is_own", "known", "name", "place", "queue", "record", "rows", "stamp",
        "used",
    )  # fmt: skip

    def __init__(self, record: QueueRecord | None, above: "Contender | None", *, is_own: bool = False) -> None:
        self.record = record
        self.above = above
        self.is_own = is_own
        self.name = record.name if record is not None and not is_own else ""
        self.is_fifo = record is not None and record.policy.order is QueueOrder.FIFO
        self.queue = ""
        """The queue of the next job at or below this contender; "" if there is none."""
        self.place = _NO_PLACE
        self.extra: Amounts = {}
        """Amounts that the next job would add here."""
        self.heap: list[tuple[Key, int, Contender]] = []
        """Key, stamp and child; entries of children that changed since are stale."""
        self.rows: dict[str, _Row] = {}
        """The resources that count for shares."""
        self.known: set[str] = set()
        """Resources that were looked up."""
        self.used = -1.0
        self.stamp = 0


class FairShareOrder:
    """The fair-share order of queues during one decision. `now` is the time to which usage decays."""

    def __init__(self, tree: QueueTree, now: int) -> None:
        self._tree = tree
        self._now = now
        self._cluster = Contender(None, None)
        self._contenders: dict[str, Contender] = {}
        self._own: dict[str, Contender] = {}

    def next(self) -> str:
        """Return the queue whose job is next; "" if no queue offers a job."""
        return self._cluster.queue

    def begin(self, offers: Iterable[tuple[str, Place, Amounts]]) -> None:
        """Take the first offers of many queues at once; each key is computed once."""
        levels: list[dict[Contender, None]] = [{} for _ in range(DEPTH_MAX + 2)]
        for queue, place, amounts in offers:
            contender = self._of(queue)
            contender.queue, contender.place, contender.extra = queue, place, amounts
            levels[len(self._tree.queues[queue].path) + contender.is_own][contender] = None
        for depth in range(len(levels) - 1, 0, -1):
            for contender in levels[depth]:
                above = contender.above
                assert above is not None
                above.heap.append((self._key(contender, above), contender.stamp, contender))
                levels[depth - 1][above] = None
            for above in levels[depth - 1]:
                if above.heap:  # else it is a queue that only offers its own jobs
                    heapq.heapify(above.heap)
                    self._take_best(above)

    def offer(self, queue: str, place: Place, amounts: Amounts) -> None:
        """Set the next job of a queue; amounts held by the job or earlier jobs are already counted in the tree."""
        contender = self._of(queue)
        contender.queue, contender.place, contender.extra = queue, place, amounts
        self._rise(contender)

    def leave(self, queue: str) -> None:
        """Remove the queue: it has no more jobs to offer."""
        contender = self._of(queue)
        contender.queue = ""
        self._rise(contender)

    # --- inside ----------------------------------------------------------------------------------------------

    def _of(self, queue: str) -> Contender:
        own = self._own.get(queue)
        if own is None:
            record = self._tree.queues[queue]
            own = self._contender(record)
            if record.children:
                own = Contender(record, own, is_own=True)
            self._own[queue] = own
        return own

    def _contender(self, record: QueueRecord) -> Contender:
        contender = self._contenders.get(record.name)
        if contender is None:
            above = self._cluster if record.parent is None else self._contender(record.parent)
            contender = self._contenders[record.name] = Contender(record, above)
        return contender

    def _rise(self, contender: Contender) -> None:
        while (above := contender.above) is not None:
            contender.stamp += 1
            if contender.queue:
                heapq.heappush(above.heap, (self._key(contender, above), contender.stamp, contender))
            self._take_best(above)
            contender = above

    def _take_best(self, above: Contender) -> None:
        best = self._best(above)
        if best is None:
            above.queue = ""
        else:
            above.queue, above.place = best.queue, best.place
            above.extra = best.extra if best.is_own or above.record is None else _above(best)

    @staticmethod
    def _best(above: Contender) -> Contender | None:
        heap = above.heap
        while heap:
            _, stamp, child = heap[0]
            if child.queue and child.stamp == stamp:
                return child
            heapq.heappop(heap)
        return None

    def _key(self, contender: Contender, above: Contender) -> Key:
        place = contender.place
        if above.is_fifo:
            return place, "", place, contender.name
        record, extra = contender.record, contender.extra
        assert record is not None
        rows = contender.rows
        if not contender.known or extra.keys() - contender.known:
            self._fill(contender, record, extra)
        if contender.is_own:
            share, total = _own(rows, extra), 0.0
            weight = 1.0
        else:
            share, total = _measure(rows, extra)
            weight = record.spec.weight
        return (share + contender.used) / weight, total / weight, place, contender.name

    def _fill(self, contender: Contender, record: QueueRecord, extra: Mapping[str, int]) -> None:
        capacity, now = self._tree.capacity, self._now
        used, is_left_out = 0.0, skips(record)
        contender.known = {*record.cells, *extra}
        for resource in contender.known:
            if is_left_out(resource):
                continue
            cell = record.cells_up(resource)[0]
            lendable = (record.lendable_below if contender.is_own else record.lendable)(resource, capacity)
            row = contender.rows[resource] = _Row(
                cell, average=cell.average_at(now), lendable=lendable, capacity=capacity.get(resource, 0)
            )
            if not contender.is_own:
                used = max(used, (row.average - cell.subtree) / row.lendable)
            elif resource == GPU:
                used = record.principals.total(now, record.policy.half_life_ns) / row.lendable
        contender.used = used


def _measure(rows: Mapping[str, _Row], extra: Amounts) -> tuple[float, float]:
    """Return the share with the extra amounts, and the total usage as a part of the cluster, both before the weight."""
    share = total = 0.0
    for resource, row in rows.items():
        cell = row.cell
        borrowed = (cell.usage + extra.get(resource, 0) - cell.subtree) / row.lendable
        share = max(share, borrowed)
        part = (cell.held + row.average) / row.capacity
        total = max(total, part)
    return share, total


def _own(rows: Mapping[str, _Row], extra: Amounts) -> float:
    return max(((row.cell.own + extra.get(resource, 0)) / row.lendable for resource, row in rows.items()), default=0.0)


def _above(child: Contender) -> Amounts:
    """Return what the child's next job adds at the queue above: amounts beyond the child's local quota."""
    extra = child.extra
    record = child.record
    assert record is not None
    cells = {resource: record.cells_up(resource)[0] for resource in extra}
    if not any(cell.local for cell in cells.values()):
        return extra
    more = dict[str, int]()
    for resource, amount in extra.items():
        cell = cells[resource]
        more[resource] = max(0, cell.usage + amount - cell.local) - cell.above
    return more


Head = tuple[Place, int, PendingQueue, int]
"""A job of a pending queue: its rank, the number of the pending queue, the pending queue, its index in it."""

Heads = dict[str, list[Head]]
"""The heads of pending queues, by queue."""


def add_head(heads: Heads, pending: PendingQueue, at: int) -> None:
    """Add the pending queue to the heads, from this job on."""
    heads.setdefault(pending.queue, []).append((pending.jobs[at][0], pending.number, pending, at))


def next_in_queue(_pending: PendingQueue, at: int) -> int:
    """Return the index of the next job."""
    return at + 1


def serve_in_order(
    queues: QueueTree,
    jobs: JobBook,
    heads: Heads,
    now: Instant,
    attempt: Callable[[JobRecord, PendingQueue], bool],
    *,
    behind: Callable[[PendingQueue, int], int] = next_in_queue,
) -> Iterator[JobRecord]:
    """Yield the jobs that `attempt` placed, in order. A pending queue whose first job was not placed is left out.

    `behind` returns the index in a pending queue of the next job that may be tried.
    """
    order = FairShareOrder(queues, now)
    for queue, heap in heads.items():
        heapq.heapify(heap)
        _offer_head(order, queue, heap)
    while queue := order.next():
        heap = heads[queue]
        _, number, pending, at = heapq.heappop(heap)
        record = jobs.records[pending.jobs[at][1]]
        if attempt(record, pending):
            yield record
            at = behind(pending, at)
            if at < len(pending.jobs):
                heapq.heappush(heap, (pending.jobs[at][0], number, pending, at))
        _offer_head(order, queue, heap)


def _offer_head(order: FairShareOrder, queue: str, heap: list[Head]) -> None:
    if heap:
        order.offer(queue, heap[0][0], heap[0][2].job_class.amounts)
    else:
        order.leave(queue)
