"""Which of the jobs that wait are placed, and where; those that are not wait for what stood in their way."""

import heapq
from collections.abc import Collection, Iterator, Sequence

from muster.cluster.grants import Grants
from muster.cluster.ledger import Ledger
from muster.core import Draft
from muster.placement import Hold
from muster.scheduler.core.admit.quota import admit
from muster.scheduler.core.lifecycle.follow_ups import draft, queued_draft
from muster.scheduler.core.lifecycle.preflight import PlanOf
from muster.scheduler.core.queue.fair_share import Turns
from muster.scheduler.core.reasons import unknown_queue
from muster.scheduler.core.requeue import Remains
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.jobs import JobRecord
from muster.scheduler.core.stores.pending_queue import Cap, Lane, Place
from muster.schemas.facts.job import JobPlaced
from muster.schemas.job import Phase

PLACEMENTS_MAX = 512
"""Gangs placed by one decision: about 50 ms of work."""

SLOTS_MAX = 8_192
"""Replicas placed by one decision; one gang more may begin below it."""

ATTEMPTS_MAX = 2_048
"""Gangs tried by one decision, placed or not."""

DEMAND_FIRST = 64

DEMAND_EVERY = 2_048
"""The fragmentation score learns after 64 jobs, then whenever their number doubled, at last every 2,048 jobs."""

Heads = list[tuple[Place, int, Lane, int, Iterator[Lane]]]
"""The first jobs of lanes, a heap: place in line, number of the lane, the lane, the job's place in it, and lanes behind
it that are worth trying only if this one was.
"""

_NOBODY: Iterator[Lane] = iter(())


def placement_drafts(
    record: JobRecord, holds: Sequence[Hold], *, ledger: Ledger, grants: Grants | None, plan_of: PlanOf | None
) -> Iterator[Draft]:
    """Yield `placed` on these places, and `queued` before it for a job that just came.

    grants: whose newest release is named as a cause if the job came before it; None: the job waited for none.
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
    """Places gangs: what it proposes stays held in the fleet until it is folded or taken back."""

    def __init__(self, state: State, remains: Remains, *, plan_of: PlanOf | None = None) -> None:
        self._state = state
        self._plan_of = plan_of
        self._remains = remains
        self._learnt = 0

    def make(self, drafts: list[Draft], taken: Collection[str] = (), *, now: int = 0) -> set[str]:
        """Queues take turns, one gang each, the least served first; within a queue the first in line that fits.

        taken: jobs that this decision has placed already. Adds the drafts to `drafts`; returns the jobs placed here.
        """
        state = self._state
        self._learn()
        state.pending.refresh(
            version=state.fleet.version, withdrawn=state.proposals.withdrawn, generation=state.progress.generation
        )
        heads = self._heads(taken)
        turns = self._turns(heads, now)
        placed: set[str] = set()
        attempts = slots = 0
        narrow_at = 1  # after the first placement, then whenever their number doubled
        while queue := turns.next():
            if len(placed) >= PLACEMENTS_MAX or slots >= SLOTS_MAX or attempts >= ATTEMPTS_MAX:
                self._remains.more = state.pending.unfinished = True
                break
            if len(placed) >= narrow_at and state.pending.has_room_for_any:
                narrow_at = 2 * len(placed)
                state.pending.narrow()
                if not state.pending.has_room_for_any:  # then nobody has to find out one by one
                    heads = {queue: left for queue, heap in heads.items() if (left := _not_short(heap))}
                    turns = self._turns(heads, now)
                    continue
            if not self._drop_hopeless(heads[queue], taken):
                _, _, lane, at, behind = heapq.heappop(heads[queue])
                record = state.jobs.records[lane.jobs[at][1]]
                attempts += 1
                if self.place(record, lane, drafts):
                    placed.add(record.id)
                    slots += record.kind.replicas
                    if not _push(heads[queue], lane, at + 1, _NOBODY, taken):
                        state.pending.exhausted(lane)
                _push_next(heads[queue], behind, taken)
            _offer(turns, queue, heads[queue])
        return placed

    def place(self, record: JobRecord, lane: Lane, drafts: list[Draft]) -> bool:
        """Propose a place for one gang of a lane, or let the lane wait for what stands in its way."""
        holds = admit(self._state, record, lane)
        if holds is None:
            return False
        grants = self._state.grants if lane.held_up else None
        drafts += placement_drafts(record, holds, ledger=self._state.ledger, grants=grants, plan_of=self._plan_of)
        return True

    def _heads(self, taken: Collection[str]) -> dict[str, Heads]:
        """The first jobs of the lanes that are worth trying, by queue."""
        heads: dict[str, Heads] = {}
        line, queues = self._state.pending, self._state.queues.queues
        for lane in tuple(line.open):
            if lane.queue in queues:
                _push(heads.setdefault(lane.queue, []), lane, 0, _NOBODY, taken)
            else:
                line.run_into(lane, Cap("", unknown_queue(lane.queue)))
        for queue, lanes in line.worth_trying():
            _push_next(heads.setdefault(queue, []), lanes, taken)
        return heads

    def _turns(self, heads: dict[str, Heads], now: int) -> Turns:
        turns = Turns(self._state.queues, now)
        turns.begin((queue, heap[0][0], heap[0][2].kind.amounts) for queue, heap in heads.items() if heap)
        return turns

    def _drop_hopeless(self, heads: Heads, taken: Collection[str]) -> bool:
        """Drop the first of these as long as it is not worth trying any more. Returns whether any was."""
        line, dropped = self._state.pending, False
        while heads and not line.may_fit(heads[0][2]):
            _, _, lane, _, behind = heapq.heappop(heads)
            if not lane.is_blocked:
                line.fall_short(lane, tried=False)
            if lane.cap is None:  # those behind a lane with too little quota need as much
                _push_next(heads, behind, taken)
            dropped = True
        return dropped

    def _learn(self) -> None:
        """Teach the fragmentation score what is typical, seldom enough to cost nothing."""
        demand = self._state.demand
        if demand.seen >= max(DEMAND_FIRST, min(2 * self._learnt, self._learnt + DEMAND_EVERY)):
            self._learnt = demand.seen
            self._state.fleet.set_demand(demand.tasks)


def _offer(turns: Turns, queue: str, heads: Heads) -> None:
    """The queue offers the first of these."""
    if heads:
        place, _, lane, *_ = heads[0]
        turns.offer(queue, place, lane.kind.amounts)
    else:
        turns.leave(queue)


def _not_short(heads: Heads) -> Heads:
    """Those that are not known to lack room."""
    left = [head for head in heads if head[2].short is None]
    heapq.heapify(left)
    return left


def _push(heads: Heads, lane: Lane, at: int, behind: Iterator[Lane], taken: Collection[str]) -> bool:
    """Add the lane's first job from this place on that is not taken; False if there is none."""
    at = _first(lane, at, taken)
    if at < len(lane.jobs):
        heapq.heappush(heads, (lane.jobs[at][0], lane.number, lane, at, behind))
    return at < len(lane.jobs)


def _push_next(heads: Heads, behind: Iterator[Lane], taken: Collection[str]) -> None:
    """Add the next lane that has a job to offer."""
    for lane in behind:
        if _push(heads, lane, 0, behind, taken):
            return


def _first(lane: Lane, at: int, taken: Collection[str]) -> int:
    """The place of the lane's first job from this one on that is not taken; one behind the last if there is none."""
    while at < len(lane.jobs) and lane.jobs[at][1] in taken:
        at += 1
    return at
