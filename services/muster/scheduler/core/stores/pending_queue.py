"""A pending queue: jobs of one queue with the same request, in order; and what blocks each pending queue.

A pending queue is judged by its first job: if that cannot run, no job behind it can. It is blocked by capacity (the
fleet has no room for such a gang) or by quota, and is tried again when that may be over.

Pending queues blocked by quota are kept by queue, resource and need, so that freed amounts are compared with a few
numbers instead of every pending queue. When usage falls in a tree, only pending queues are checked whose limit it may
affect: each waits on the queues from its own up to the one with the limit that blocked it. This is sufficient: the
amount available to a queue is the sum of what is left below that limit on the way, and of what the limit leaves;
neither grows unless usage falls at one of those queues.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from muster.core import Instant
from muster.placement.rooms import Rooms, Watch
from muster.quota.amounts import NO_AMOUNTS, Amounts
from muster.quota.queues import QueueTree
from muster.scheduler.core.reasons import Blocked
from muster.scheduler.core.stores.jobs import EquivalenceClass, JobRecord

Place = tuple[int, int]
"""A job's place in its queue: its rank, and the sequence number of its `routed` fact."""

Entry = tuple[Place, str]
"""A pending job: its place in its queue, and its id."""


def entry_of(record: JobRecord) -> Entry:
    """Return the job as an entry of its pending queue."""
    return (record.rank, record.routed_seq), record.id


class PendingQueue:
    """Pending jobs of one queue and one equivalence class."""

    __slots__ = (
        "capacity_block", "due", "filed", "job_class", "jobs", "number", "queue", "quota_block", "unreported",
        "was_blocked", "why", "why_epoch",
    )  # fmt: skip

    def __init__(self, queue: str, job_class: EquivalenceClass, *, number: int) -> None:
        self.queue = queue
        self.job_class = job_class
        self.number = number
        self.jobs: list[Entry] = []
        """Ascending, by rank and then by arrival."""
        self.capacity_block: CapacityBlock | None = None
        """Why its first job cannot run; this and `quota_block` are None if that is unknown."""
        self.quota_block: QuotaBlock | None = None
        self.filed: Place = (0, 0)
        """The place of its first job at which it is filed while it is blocked."""
        self.was_blocked = False
        """Whether it was ever blocked."""
        self.unreported: dict[str, None] = {}
        """Jobs for which no reason was reported yet."""
        self.why: Blocked | None = None
        """The last reported reason, found when the pending queues' epoch was `why_epoch`."""
        self.why_epoch = -1
        self.due = 0

    @property
    def is_blocked(self) -> bool:
        """Whether it was tried, and its first job could not run."""
        return self.capacity_block is not None or self.quota_block is not None

    def stands(self, entry: Entry) -> bool:
        """Return whether this job waits here."""
        at = bisect_left(self.jobs, entry)
        return at < len(self.jobs) and self.jobs[at] == entry


class QueuesInOrder:
    """Pending queues by the place of their first job. A pending queue is in one of these at a time."""

    __slots__ = ("_queues",)

    def __init__(self) -> None:
        self._queues: list[tuple[Place, int, PendingQueue]] = []

    def __bool__(self) -> bool:
        return bool(self._queues)

    def all(self) -> list[tuple[Place, int, PendingQueue]]:
        """Return all in order, each with the place of its first job and its own number; do not modify the list."""
        return self._queues

    def add(self, pending: PendingQueue) -> None:
        """Add a pending queue that is not empty."""
        pending.filed = pending.jobs[0][0]
        insort(self._queues, (pending.filed, pending.number, pending))

    def remove(self, pending: PendingQueue) -> None:
        """Remove a pending queue."""
        at = bisect_left(self._queues, (pending.filed, pending.number))
        assert self._queues[at][2] is pending
        del self._queues[at]

    def refile(self, pending: PendingQueue) -> None:
        """Restore the order after the first job may have changed."""
        if pending.filed != pending.jobs[0][0]:
            self.remove(pending)
            self.add(pending)


# --- blocked by capacity -------------------------------------------------------------------------------------


class CapacityBlock:
    """Pending queues of one class for which the fleet has no room, by queue."""

    __slots__ = ("job_class", "queues", "refused", "watch", "why", "why_epoch", "why_until")

    def __init__(self, job_class: EquivalenceClass, watch: Watch) -> None:
        self.job_class = job_class
        self.watch = watch
        self.queues: dict[str, PendingQueue] = {}
        self.refused = -2
        """The fleet's version when a gang of the class was last tried."""
        self.why: Blocked | None = None
        """The reason, found when the epoch was `why_epoch`; it is not searched again before `why_until`."""
        self.why_epoch = -1
        self.why_until = Instant(0)


class CapacityBlocked:
    """All pending queues that are blocked by capacity. The placement engine counts the room for each class."""

    def __init__(self, rooms: Rooms) -> None:
        self.hopes: dict[Watch, CapacityBlock] = {}
        """Classes for which there may be room again."""
        self._rooms = rooms
        self._of_class: dict[EquivalenceClass, CapacityBlock] = {}
        self._of_watch: dict[Watch, CapacityBlock] = {}
        self._of_queue: dict[str, QueuesInOrder] = {}

    def of_class(self, job_class: EquivalenceClass) -> CapacityBlock | None:
        """Return the block of one class's pending queues, if there is one."""
        return self._of_class.get(job_class)

    def add(self, pending: PendingQueue) -> CapacityBlock:
        """Add a pending queue that is not empty; adding it again is allowed."""
        block = self._of_class.get(pending.job_class)
        if block is None:
            watch = self._rooms.watch(pending.job_class.gang)
            block = CapacityBlock(pending.job_class, watch)
            self._of_class[pending.job_class] = self._of_watch[watch] = block
        if pending.queue not in block.queues:
            block.queues[pending.queue] = pending
            self._of_queue.setdefault(pending.queue, QueuesInOrder()).add(pending)
        return block

    def remove(self, pending: PendingQueue, block: CapacityBlock) -> None:
        """Remove a pending queue that is no longer blocked."""
        del block.queues[pending.queue]
        in_order = self._of_queue[pending.queue]
        in_order.remove(pending)
        if not in_order:
            del self._of_queue[pending.queue]
        if not block.queues:
            self._rooms.unwatch(block.watch)
            del self._of_class[block.job_class], self._of_watch[block.watch]
            self.hopes.pop(block.watch, None)

    def refile(self, pending: PendingQueue) -> None:
        """Restore the order after the first job may have changed."""
        self._of_queue[pending.queue].refile(pending)

    def hope(self, *, for_all: bool) -> None:
        """Find the classes for which there is room, among all of them or among those found last."""
        among = self._of_watch if for_all else self.hopes
        found = self._rooms.hopeful(None if for_all else among) if among else ()
        self.hopes = {watch: among[watch] for watch in found}

    def has_room(self, block: CapacityBlock) -> bool:
        """Return whether there is room for the class now."""
        return self._rooms.has_room(block.watch)

    def hopeful(self) -> Iterator[tuple[str, Iterator[PendingQueue]]]:
        """Yield queues that have pending queues for which there may be room, with these pending queues in order.

        They are found lazily: pending queues for which there is no room by then are left out.
        """
        queues = dict[str, PendingQueue]()
        for block in self.hopes.values():
            queues.update(block.queues)
        for queue in queues:
            yield queue, self._hopeful(self._of_queue[queue])

    def _hopeful(self, in_order: QueuesInOrder) -> Iterator[PendingQueue]:
        for _, _, pending in in_order.all().copy():
            if not self.hopes:
                return
            if pending.capacity_block is not None and pending.capacity_block.watch in self.hopes:
                yield pending


# --- blocked by quota ----------------------------------------------------------------------------------------


class QuotaBlock:
    """The quota that the first job of a pending queue would break."""

    __slots__ = ("amounts", "depends_on_place", "is_provisional", "need", "resource", "why")

    def __init__(
        self,
        resource: str,
        why: Blocked,
        *,
        amounts: Amounts = NO_AMOUNTS,
        depends_on_place: bool = False,
        is_provisional: bool = False,
    ) -> None:
        self.resource = resource
        """The resource that is short; "" if the queue does not exist."""
        self.amounts = amounts
        """All that the job needs."""
        self.why = why
        self.depends_on_place = depends_on_place
        """Whether another place might need less, so that it is tried whenever anything changed: the place found depends
        on what other jobs take as much as on what they free."""
        self.is_provisional = is_provisional
        """Whether it counts proposals that may be retracted."""
        self.need = amounts.get(resource, 0)
        """How much of the resource must be available."""


QuotaWaitKey = tuple[str, str, bool]
"""Queue, resource, and whether the jobs may be preempted."""


class QuotaWait:
    """Pending queues of one queue that need more of one resource than was available."""

    __slots__ = ("key", "left", "queues", "waits_on")

    def __init__(self, key: QuotaWaitKey) -> None:
        self.key = key
        self.queues: dict[int, QueuesInOrder] = {}
        """By the amount that they need."""
        self.left = 0
        """The amount available at the last check."""
        self.waits_on: tuple[tuple[str, str], ...] = ()

    @property
    def is_hopeful(self) -> bool:
        """Whether there is enough for the pending queue that needs least."""
        return any(need <= self.left for need in self.queues)


class QuotaBlocked:
    """All pending queues that are blocked by quota."""

    def __init__(self) -> None:
        self._hopeful: dict[QuotaWait, None] = {}
        self._waits: dict[QuotaWaitKey, QuotaWait] = {}
        self._waiting: dict[tuple[str, str], dict[QuotaWait, None]] = {}
        self._unknown: dict[str, dict[PendingQueue, None]] = {}
        self._dependent_on_place: dict[PendingQueue, None] = {}

    def add(self, pending: PendingQueue, block: QuotaBlock, tree: QueueTree) -> None:
        """Add a pending queue that is not empty."""
        if not block.resource:
            self._unknown.setdefault(pending.queue, {})[pending] = None
            return
        key = _key(pending, block)
        wait = self._waits.get(key)
        if wait is None:
            wait = self._waits[key] = QuotaWait(key)
        wait.queues.setdefault(block.need, QueuesInOrder()).add(pending)
        self._look(wait, tree)
        if block.depends_on_place:
            self._dependent_on_place[pending] = None

    def remove(self, pending: PendingQueue, block: QuotaBlock) -> None:
        """Remove a pending queue that is no longer blocked."""
        if not block.resource:
            known = self._unknown[pending.queue]
            del known[pending]
            if not known:
                del self._unknown[pending.queue]
            return
        wait = self._waits[_key(pending, block)]
        in_order = wait.queues[block.need]
        in_order.remove(pending)
        if not in_order:
            del wait.queues[block.need]
        self._dependent_on_place.pop(pending, None)
        if not wait.queues:
            self._wait_on(wait, ())
            self._hopeful.pop(wait, None)
            del self._waits[wait.key]

    def refile(self, pending: PendingQueue, block: QuotaBlock) -> None:
        """Restore the order after the first job may have changed."""
        if block.resource:
            self._waits[_key(pending, block)].queues[block.need].refile(pending)

    def relieve(self, relieved: Iterable[tuple[str, str]], tree: QueueTree) -> None:
        """Find pending queues that may have enough, now that usage fell at these (queue, resource)."""
        waits: dict[QuotaWait, None] = dict(self._hopeful)
        for key in relieved:
            waits.update(self._waiting.get(key, ()))
        for wait in waits:
            self._look(wait, tree)

    def relieve_all(self, tree: QueueTree) -> None:
        """Find pending queues that may have enough, whatever changed."""
        for wait in self._waits.values():
            self._look(wait, tree)

    def hopeful(self) -> Iterator[tuple[str, Iterator[PendingQueue]]]:
        """Yield queues with pending queues that may have enough quota; pending queues of the same need are in order."""
        for wait in self._hopeful:
            for need, in_order in wait.queues.items():
                if need <= wait.left:
                    yield wait.key[0], iter([pending for _, _, pending in in_order.all()])

    def of_queue(self, queue: str) -> tuple[PendingQueue, ...]:
        """Return the pending queues of a queue that did not exist."""
        return tuple(self._unknown.get(queue, ()))

    def dependent_on_place(self) -> tuple[PendingQueue, ...]:
        """Return pending queues that have to be tried whenever anything changed."""
        return tuple(self._dependent_on_place)

    def _look(self, wait: QuotaWait, tree: QueueTree) -> None:
        queue, resource, preemptible = wait.key
        wait.left = tree.available(queue, resource, preemptible=preemptible)
        self._wait_on(wait, tuple((above, resource) for above in tree.waits_on(queue, resource)))
        if wait.is_hopeful:
            self._hopeful[wait] = None
        else:
            self._hopeful.pop(wait, None)

    def _wait_on(self, wait: QuotaWait, keys: tuple[tuple[str, str], ...]) -> None:
        if keys == wait.waits_on:
            return
        for key in wait.waits_on:
            waiting = self._waiting[key]
            del waiting[wait]
            if not waiting:
                del self._waiting[key]
        for key in keys:
            self._waiting.setdefault(key, {})[wait] = None
        wait.waits_on = keys


def _key(pending: PendingQueue, block: QuotaBlock) -> QuotaWaitKey:
    return pending.queue, block.resource, pending.job_class.preemptible
