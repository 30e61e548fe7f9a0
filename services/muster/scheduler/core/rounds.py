"""Queues take turns with the first jobs of some of their lanes, by the same tournament as in the ordinary search."""

import heapq
from collections.abc import Callable, Iterator

from muster.core import Instant
from muster.scheduler.core.jobs import JobRecord
from muster.scheduler.core.lanes import Lane, Place
from muster.scheduler.core.state import State
from muster.scheduler.core.turns import Turns

Head = tuple[Place, int, Lane, int]
"""The first job of a lane: place in line, number of the lane, the lane, the job's place in it."""

Heads = dict[str, list[Head]]
"""By queue."""


def add_head(heads: Heads, lane: Lane, at: int) -> None:
    """Let the lane take part from this job on."""
    heads.setdefault(lane.queue, []).append((lane.jobs[at][0], lane.number, lane, at))


def next_in_line(_lane: Lane, at: int) -> int:
    """The one behind."""
    return at + 1


def rounds(
    state: State,
    heads: Heads,
    now: Instant,
    attempt: Callable[[JobRecord, Lane], bool],
    *,
    behind: Callable[[Lane, int], int] = next_in_line,
) -> Iterator[JobRecord]:
    """The jobs that `attempt` could place, one after the other; a lane whose first job it could not stands aside.

    behind: at which place of a lane the next one stands that may be tried.
    """
    turns = Turns(state.queues, now)
    for queue, heap in heads.items():
        heapq.heapify(heap)
        _offer(turns, queue, heap)
    while queue := turns.next():
        heap = heads[queue]
        _, number, lane, at = heapq.heappop(heap)
        record = state.jobs.records[lane.jobs[at][1]]
        if attempt(record, lane):
            yield record
            at = behind(lane, at)
            if at < len(lane.jobs):
                heapq.heappush(heap, (lane.jobs[at][0], number, lane, at))
        _offer(turns, queue, heap)


def _offer(turns: Turns, queue: str, heap: list[Head]) -> None:
    """The queue offers the first of these."""
    if heap:
        turns.offer(queue, heap[0][0], heap[0][2].kind.amounts)
    else:
        turns.leave(queue)
