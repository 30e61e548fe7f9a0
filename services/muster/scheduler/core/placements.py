"""Which of the jobs that wait are placed, and where; those that are not wait for what stood in their way."""

import heapq

from muster.core import Draft
from muster.placement import Slot as Place
from muster.scheduler.core.amounts import NO_AMOUNTS, Amounts
from muster.scheduler.core.follow import draft, queued
from muster.scheduler.core.holdings import amounts_of
from muster.scheduler.core.jobs import JobRecord
from muster.scheduler.core.order import Turn, turn
from muster.scheduler.core.reasons import of_ceiling
from muster.scheduler.core.remains import Remains
from muster.scheduler.core.state import State
from muster.scheduler.core.waiting import Cap, Lane
from muster.scheduler.core.words import unknown_queue
from muster.schemas.facts.job import JobPlaced
from muster.schemas.job import Phase, Slot

PLACEMENTS_MAX = 512
"""Gangs placed by one decision: about 50 ms of work."""

SLOTS_MAX = 8_192
"""Replicas placed by one decision; one gang more may begin below it."""

ATTEMPTS_MAX = 2_048
"""Gangs tried by one decision, placed or not."""

DEMAND_FIRST = 64
DEMAND_EVERY = 2_048
"""The fragmentation score learns after 64 jobs, then whenever their number doubled, at last every 2,048 jobs."""

_Heads = list[tuple[int, int, Lane, int]]


class Placements:
    """Places gangs: what it proposes stays held in the books until it is folded or taken back."""

    def __init__(self, state: State, remains: Remains) -> None:
        self._state = state
        self._remains = remains
        self._learnt = 0

    def make(self, drafts: list[Draft]) -> set[str]:
        """Queues take turns, one gang each, the least served first; within a queue the first in line that fits.

        Adds the drafts to `drafts`; returns the jobs that were placed.
        """
        state = self._state
        self._learn()
        books, queues, line = state.books, state.queues, state.line
        line.refresh(version=books.fleet.version, withdrawn=books.withdrawn, relieved=queues.relieved)
        fresh = self._fresh()
        names = dict.fromkeys(fresh)
        for short in line.hopes.values():
            names.update(dict.fromkeys(short.lanes))
        turns: list[tuple[Turn, str]] = [(turn(queues.queues[queue], queues.capacity), queue) for queue in names]
        heapq.heapify(turns)
        heads: dict[str, _Heads] = {}
        placed: set[str] = set()
        attempts = slots = 0
        narrow_at = 1  # after the first placement, then whenever their number doubled
        while turns:
            if len(placed) >= PLACEMENTS_MAX or slots >= SLOTS_MAX or attempts >= ATTEMPTS_MAX:
                self._remains.more = line.unfinished = True
                break
            queue = turns[0][1]
            if len(placed) >= narrow_at:
                narrow_at = 2 * len(placed)
                line.narrow()
                for heap in heads.values():
                    heap[:] = [head for head in heap if head[2].short is None or head[2].short.watch in line.hopes]
                    heapq.heapify(heap)
            if queue not in heads:
                heads[queue] = self._heads(queue, fresh.get(queue, []))
            record, tried = self._serve(heads[queue], drafts)
            attempts += tried
            if record is None:
                heapq.heappop(turns)
                continue
            placed.add(record.id)
            slots += record.kind.replicas
            heapq.heapreplace(turns, (turn(queues.queues[queue], queues.capacity), queue))
        return placed

    def _fresh(self) -> dict[str, list[Lane]]:
        """The lanes that were never judged, or judged by what is over, by queue."""
        fresh: dict[str, list[Lane]] = {}
        line, queues = self._state.line, self._state.queues.queues
        for lane in tuple(line.open):
            if lane.queue in queues:
                fresh.setdefault(lane.queue, []).append(lane)
            else:
                line.run_into(lane, Cap(lane.queue, NO_AMOUNTS, unknown_queue(lane.queue)))
        return fresh

    def _heads(self, queue: str, fresh: list[Lane]) -> _Heads:
        """A heap of the first jobs of a queue's lanes that are worth trying, by their place in line."""
        line = self._state.line
        lanes = [*fresh, *(short.lanes[queue] for short in line.hopes.values() if queue in short.lanes)]
        heads = [(lane.jobs[0][0], lane.number, lane, 0) for lane in lanes]
        heapq.heapify(heads)
        return heads

    def _serve(self, heads: _Heads, drafts: list[Draft]) -> tuple[JobRecord | None, int]:
        """Place the first of these jobs that can be. Returns it, and how many were tried."""
        state, tried = self._state, 0
        line = state.line
        while heads and tried < ATTEMPTS_MAX:
            _, number, lane, at = heads[0]
            if not line.may_fit(lane):
                if lane.short is None:
                    line.fall_short(lane, tried=False)
                heapq.heappop(heads)
                continue
            record = state.jobs.records[lane.jobs[at][1]]
            tried += 1
            if not self._place(record, lane, drafts):
                heapq.heappop(heads)
                continue
            if at + 1 < len(lane.jobs):
                heapq.heapreplace(heads, (lane.jobs[at + 1][0], number, lane, at + 1))
            else:
                heapq.heappop(heads)
            return record, tried
        return None, tried

    def _place(self, record: JobRecord, lane: Lane, drafts: list[Draft]) -> bool:
        """Propose a place for one gang, or block its lane. A gang of whole nodes may hold more than it asked."""
        books, queues, wanted = self._state.books, self._state.queues, lane.kind.amounts
        if self._is_capped(lane, wanted):
            return False
        holds = books.propose(record.id, lane.kind.gang)
        if holds is None:
            self._state.line.fall_short(lane)
            return False
        held = amounts_of(lane.kind, [hold.slot for hold in holds], self._state.capacity.models)
        if self._is_capped(lane, held):
            books.retract(record.id)
            return False
        queues.propose(lane.queue, held, preemptible=lane.kind.preemptible)
        if record.phase is Phase.SUBMITTED:
            drafts.append(queued(record))
        causes: tuple[str, ...] = (record.last_fact,)
        if lane.held_up and books.freed_seq > record.routed_seq:
            causes = (record.last_fact, books.freed_fact)
        slots = tuple(_slot(hold.slot) for hold in holds)
        drafts.append(
            draft(
                record,
                "placed",
                JobPlaced(attempt=record.attempt, slots=slots, slice_s=record.min_slice_s),
                causes=causes,
            )
        )
        return True

    def _is_capped(self, lane: Lane, need: Amounts) -> bool:
        """Whether so much more would break a limit; then the lane waits for that limit."""
        ceiling = self._state.queues.ceiling(lane.queue, need, preemptible=lane.kind.preemptible)
        if ceiling is None:
            return False
        self._state.line.run_into(lane, Cap(lane.queue, need, of_ceiling(ceiling, wanted=need)))
        return True

    def _learn(self) -> None:
        """Teach the fragmentation score what is typical, seldom enough to cost nothing."""
        demand = self._state.demand
        if demand.seen >= max(DEMAND_FIRST, min(2 * self._learnt, self._learnt + DEMAND_EVERY)):
            self._learnt = demand.seen
            self._state.books.fleet.set_demand(demand.tasks)


def _slot(place: Place) -> Slot:
    return Slot(
        group=place.group, replica=place.replica, node=place.node, devices=place.devices, gpu_milli=place.gpu_milli
    )
