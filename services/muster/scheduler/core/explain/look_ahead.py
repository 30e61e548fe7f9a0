"""Who will be served before a job: the cycle's own tournament, played ahead on paper.

Lanes that their quota stops stand aside, as they do in a cycle, unless the same bound stops the job by then: then they
wait for the same to come free, and those in front get it first.
"""

import heapq
from bisect import insort
from collections.abc import Iterable, Iterator

from muster.core import Instant
from muster.quota.amounts import Amounts
from muster.quota.formulas import NON_PREEMPTIBLE, Ceiling
from muster.scheduler.core.queue.fair_share import Turns
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.jobs import JobRecord
from muster.scheduler.core.stores.pending_queue import Lane, Place, entry_of

_Heads = list[tuple[Place, int, Lane | None, int]]
"""Place in line, number of the lane, the lane (None: the job that is asked about), the job's place in the lane."""


class Front:
    """Jobs in the order in which they would be served, as if each were. Holds what they ask for until `close`."""

    def __init__(self, state: State, record: JobRecord, now: Instant) -> None:
        self._state = state
        self._record = record
        self._turns = Turns(state.queues, now)
        self._heads: dict[str, _Heads] = {}
        self._held: list[JobRecord] = []
        self._fill()

    def before(self) -> Iterator[JobRecord]:
        """Those in front of the job, one after the other; each counts as served when the next is asked for."""
        for record in self._served():
            if record is self._record:
                return
            yield record

    def behind(self) -> Iterator[JobRecord]:
        """Those that come after the job, if it has to wait; to be asked for when all in front of it were."""
        yield from self._served()

    def close(self) -> None:
        """Nobody counts as served any more."""
        for record in reversed(self._held):
            self._hold(record, -1)
        self._held.clear()

    # --- inside ----------------------------------------------------------------------------------------------

    def _served(self) -> Iterator[JobRecord]:
        while queue := self._turns.next():
            heads = self._heads[queue]
            _, number, lane, at = heapq.heappop(heads)
            record = self._record if lane is None else self._state.jobs.records[lane.jobs[at][1]]
            is_asked = record is self._record
            if is_asked or not self._stands_aside(record):
                if lane is not None and at + 1 < len(lane.jobs):
                    heapq.heappush(heads, (lane.jobs[at + 1][0], number, lane, at + 1))
                if is_asked:
                    self._offer(queue)
                    yield record
                    continue
                yield record
                self._hold(record, 1)
                self._held.append(record)
            self._offer(queue)

    def _fill(self) -> None:
        line, queues = self._state.pending, self._state.queues.queues
        for lane in line.lanes.values():
            if lane.queue in queues:
                self._heads.setdefault(lane.queue, []).append((lane.jobs[0][0], lane.number, lane, 0))
        if line.lane_of(self._record) is None and self._record.queue in queues:
            entry = (entry_of(self._record)[0], -1, None, 0)
            self._heads.setdefault(self._record.queue, []).append(entry)
        for queue, heads in self._heads.items():
            heapq.heapify(heads)
            self._offer(queue)

    def _offer(self, queue: str) -> None:
        heads = self._heads[queue]
        if not heads:
            self._turns.leave(queue)
            return
        place, _, lane, _ = heads[0]
        kind = self._record.kind if lane is None else lane.kind
        self._turns.offer(queue, place, kind.amounts)

    def _stands_aside(self, record: JobRecord) -> bool:
        """Whether its quota stops it, and that is nothing to the job that is asked about."""
        ceiling = self._ceiling(record)
        if ceiling is None:
            return False
        return ceiling.queue not in self._state.queues.path(self._record.queue) or self._ceiling(self._record) is None

    def _ceiling(self, record: JobRecord) -> Ceiling | None:
        kind = record.kind
        return self._state.queues.ceiling(record.queue, kind.amounts_least, preemptible=kind.preemptible)

    def _hold(self, record: JobRecord, sign: int) -> None:
        kind = record.kind
        self._state.queues.hold(record.queue, kind.amounts_least, sign=sign, preemptible=kind.preemptible)


class QuotaClock:
    """What running jobs and those planned before give back, in order of time, by tree of queues."""

    def __init__(self, state: State, ends: Iterable[tuple[int, JobRecord]], *, now: int) -> None:
        self._tree = state.queues
        self._now = now
        self._ends: dict[str, list[tuple[int, str, JobRecord, Amounts]]] = {}
        for at, record in ends:
            self._ends.setdefault(self._root(record.queue), []).append((at, record.id, record, record.counted))
        for of_tree in self._ends.values():
            of_tree.sort(key=lambda end: end[:2])

    def plan(self, record: JobRecord, *, ends_at: int) -> None:
        """What the job asks for is counted in the tree, and given back at that moment."""
        of_tree = self._ends.setdefault(self._root(record.queue), [])
        insort(of_tree, (ends_at, record.id, record, record.kind.amounts_least), key=lambda end: end[:2])

    def admits_at(self, record: JobRecord) -> tuple[int, Ceiling | None] | None:
        """When quota admits the job, and what stops it until then; None if it never does."""
        kind, tree = record.kind, self._tree
        first = ceiling = tree.ceiling(record.queue, kind.amounts_least, preemptible=kind.preemptible)
        at, gone = self._now, list[tuple[JobRecord, Amounts]]()
        ends = iter(self._ends.get(self._root(record.queue), ()))
        try:
            while ceiling is not None:
                lacking = kind.amounts_least.get(ceiling.resource, 0) - ceiling.available
                while lacking > 0:
                    end = next(ends, None)
                    if end is None:
                        return None
                    moment, _, other, amounts = end
                    tree.hold(other.queue, amounts, sign=-1, preemptible=other.kind.preemptible)
                    gone.append((other, amounts))
                    at = max(at, moment)
                    if self._relieves(other, ceiling):
                        lacking -= amounts.get(ceiling.resource, 0)
                ceiling = tree.ceiling(record.queue, kind.amounts_least, preemptible=kind.preemptible)
        finally:
            for other, amounts in reversed(gone):
                tree.hold(other.queue, amounts, preemptible=other.kind.preemptible)
        return at, first

    def _relieves(self, other: JobRecord, ceiling: Ceiling) -> bool:
        """Whether the bound sees what this job gives back."""
        if ceiling.reason == NON_PREEMPTIBLE and other.kind.preemptible:
            return False
        return ceiling.queue in self._tree.path(other.queue)

    def _root(self, queue: str) -> str:
        return self._tree.path(queue)[-1]
