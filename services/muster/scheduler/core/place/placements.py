"""Placement of pending jobs; pending queues whose jobs cannot be placed are blocked."""

import heapq
from collections.abc import Collection, Iterator, Sequence

from muster.cluster.grants import Grants
from muster.cluster.ledger import Ledger
from muster.core import Draft
from muster.placement import Hold
from muster.scheduler.core.admit.quota import Admission
from muster.scheduler.core.lifecycle.follow_ups import draft, queued_draft
from muster.scheduler.core.lifecycle.preflight import PlanOf
from muster.scheduler.core.order import FairShareOrder
from muster.scheduler.core.reasons import unknown_queue
from muster.scheduler.core.requeue import Requeue
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.jobs import JobRecord
from muster.scheduler.core.stores.pending_queue import PendingQueue, Place, QuotaBlock
from muster.schemas.facts.job import JobPlaced
from muster.schemas.job import Phase

PLACEMENTS_MAX = 512
"""Gangs placed by one decision: about 50 ms of work."""

SLOTS_MAX = 8_192
"""Replicas placed by one decision; the last gang may exceed it."""

ATTEMPTS_MAX = 2_048
"""Gangs tried by one decision."""

DEMAND_FIRST, DEMAND_EVERY = 64, 2_048
"""The fragmentation score is updated after 64 jobs, then whenever their number doubled, and at least every
2,048 jobs."""

Heads = list[tuple[Place, int, PendingQueue, int, Iterator[PendingQueue]]]
"""A heap of the first jobs of pending queues: rank of the job, number of the pending queue, the pending queue, index in
it, and the pending queues that are worth trying only if this one was placed."""

_NOBODY: Iterator[PendingQueue] = iter(())


def placement_drafts(
    record: JobRecord, holds: Sequence[Hold], *, ledger: Ledger, grants: Grants | None, plan_of: PlanOf | None
) -> Iterator[Draft]:
    """Yield `placed` with these places, and `queued` before it for a job that just arrived.

    The newest release of `grants` is named as a cause if the job arrived before it; None if the job was not blocked.
    """
    if record.phase is Phase.SUBMITTED:
        yield queued_draft(record)
    causes: tuple[str, ...] = (record.last_fact,)
    if grants is not None and grants.freed_seq > record.routed_seq:
        causes = (record.last_fact, grants.freed_fact)
    payload = JobPlaced(
        attempt=record.attempt,
        slots=tuple(ledger.slot_of(hold.slot) for hold in holds),
        slice_s=record.min_slice_s,
        preflight=plan_of(record.job.spec) if plan_of is not None else None,
    )
    yield draft(record, "placed", payload, causes=causes)


class Placements:
    """Places gangs; its proposals stay held in the fleet until they are folded or retracted."""

    def __init__(self, state: State, requeue: Requeue, *, plan_of: PlanOf | None = None) -> None:
        self._state = state
        self._plan_of = plan_of
        self._requeue = requeue
        self._admission = Admission(state.queues, state.pending, state.proposals, state.capacity)
        self._learnt = 0

    def make(self, drafts: list[Draft], taken: Collection[str] = (), *, now: int = 0) -> set[str]:
        """Place gangs in fair-share order, one of a queue at a time; within a queue the first in order that fits.

        Skips the jobs in `taken`, which this decision already placed. Adds the drafts to `drafts` and returns the
        placed jobs.
        """
        state = self._state
        self._learn()
        state.pending.refresh(
            version=state.fleet.version, withdrawn=state.proposals.withdrawn, generation=state.progress.generation
        )
        heads = self._heads(taken)
        order = self._order(heads, now)
        placed: set[str] = set()
        attempts = slots = 0
        narrow_at = 1  # after the first placement, then whenever their number doubled
        while queue := order.next():
            if len(placed) >= PLACEMENTS_MAX or slots >= SLOTS_MAX or attempts >= ATTEMPTS_MAX:
                self._requeue.more = state.pending.unfinished = True
                break
            if len(placed) >= narrow_at and state.pending.has_room_for_any:
                narrow_at = 2 * len(placed)
                state.pending.narrow()
                if not state.pending.has_room_for_any:  # drop all pending queues blocked by capacity at once
                    heads = {queue: left for queue, heap in heads.items() if (left := _without_capacity_block(heap))}
                    order = self._order(heads, now)
                    continue
            if not self._drop_hopeless(heads[queue], taken):
                _, _, pending, at, behind = heapq.heappop(heads[queue])
                record = state.jobs.records[pending.jobs[at][1]]
                attempts += 1
                if self.place(record, pending, drafts):
                    placed.add(record.id)
                    slots += record.job_class.replicas
                    if not _push(heads[queue], pending, at + 1, _NOBODY, taken):
                        state.pending.exhausted(pending)
                _push_next(heads[queue], behind, taken)
            _offer(order, queue, heads[queue])
        return placed

    def place(self, record: JobRecord, pending: PendingQueue, drafts: list[Draft]) -> bool:
        """Propose a place for one gang of a pending queue, or block the pending queue."""
        holds = self._admission.admit(record, pending)
        if holds is None:
            return False
        grants = self._state.grants if pending.was_blocked else None
        drafts += placement_drafts(record, holds, ledger=self._state.ledger, grants=grants, plan_of=self._plan_of)
        return True

    def _heads(self, taken: Collection[str]) -> dict[str, Heads]:
        heads: dict[str, Heads] = {}
        store, queues = self._state.pending, self._state.queues.queues
        for pending in tuple(store.open):
            if pending.queue in queues:
                _push(heads.setdefault(pending.queue, []), pending, 0, _NOBODY, taken)
            else:
                store.block_on_quota(pending, QuotaBlock("", unknown_queue(pending.queue)))
        for queue, pending_queues in store.worth_trying():
            _push_next(heads.setdefault(queue, []), pending_queues, taken)
        return heads

    def _order(self, heads: dict[str, Heads], now: int) -> FairShareOrder:
        order = FairShareOrder(self._state.queues, now)
        order.begin((queue, heap[0][0], heap[0][2].job_class.amounts) for queue, heap in heads.items() if heap)
        return order

    def _drop_hopeless(self, heads: Heads, taken: Collection[str]) -> bool:
        """Drop the first heads as long as they are not worth trying any more, and return whether any was dropped."""
        store, dropped = self._state.pending, False
        while heads and not store.may_fit(heads[0][2]):
            _, _, pending, _, behind = heapq.heappop(heads)
            if not pending.is_blocked:
                store.block_on_capacity(pending, tried=False)
            if pending.quota_block is None:  # pending queues behind one that is blocked by quota request as much
                _push_next(heads, behind, taken)
            dropped = True
        return dropped

    def _learn(self) -> None:
        """Update the typical requests of the fragmentation score, seldom enough to cost nothing."""
        demand = self._state.demand
        if demand.seen >= max(DEMAND_FIRST, min(2 * self._learnt, self._learnt + DEMAND_EVERY)):
            self._learnt = demand.seen
            self._state.fleet.set_demand(demand.tasks)


def _offer(order: FairShareOrder, queue: str, heads: Heads) -> None:
    if heads:
        place, _, pending, *_ = heads[0]
        order.offer(queue, place, pending.job_class.amounts)
    else:
        order.leave(queue)


def _without_capacity_block(heads: Heads) -> Heads:
    left = [head for head in heads if head[2].capacity_block is None]
    heapq.heapify(left)
    return left


def _push(heads: Heads, pending: PendingQueue, at: int, behind: Iterator[PendingQueue], taken: Collection[str]) -> bool:
    """Add the first job from this index on that is not taken; return False if there is none."""
    at = _first(pending, at, taken)
    if at < len(pending.jobs):
        heapq.heappush(heads, (pending.jobs[at][0], pending.number, pending, at, behind))
    return at < len(pending.jobs)


def _push_next(heads: Heads, behind: Iterator[PendingQueue], taken: Collection[str]) -> None:
    for pending in behind:
        if _push(heads, pending, 0, behind, taken):
            return


def _first(pending: PendingQueue, at: int, taken: Collection[str]) -> int:
    """Return the index of the first job from this one on that is not taken; the number of jobs if there is none."""
    while at < len(pending.jobs) and pending.jobs[at][1] in taken:
        at += 1
    return at
