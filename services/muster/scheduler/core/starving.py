"""Who of those that starve is planned for next.

Whoever has a reservation is placed before anybody else, so reservations must not undo fair shares: they are given by
turn, as places are, with what is reserved already counted as held. Only one in LONGEST_EVERY goes to the job that waits
longest, whatever its queue holds, so that nobody starves who asks for more than its fair share.

And only who is passed by needs one: as long as nobody asks for something else that is no larger, what comes free fits
whose turn it is.
"""

import heapq

from muster.core import Instant
from muster.placement import GangRequest
from muster.scheduler.core.jobs import JobRecord, Kind
from muster.scheduler.core.lanes import entry_of
from muster.scheduler.core.state import State
from muster.scheduler.core.turns import Place, Turns

LONGEST_EVERY = 8
"""One of so many reservations is for the job that waits longest."""

_Size = tuple[bool, int, int, int]
"""Jobs with GPUs are compared by GPUs, then by CPU and memory; jobs without by CPU and memory."""


def in_order(state: State, starving: list[JobRecord], now: Instant, *, most: int) -> list[JobRecord]:
    """The first of these jobs, at most so many."""
    records = state.jobs.records
    reserved = [records[job_id] for job_id in state.runs.reserved if records[job_id].queue in state.queues.queues]
    chosen = list[JobRecord]()
    if starving and len(reserved) % LONGEST_EVERY == 0:
        chosen.append(min(starving, key=lambda record: (record.queued_at, record.routed_seq)))
    for record in reserved:
        state.queues.hold(record.queue, record.kind.amounts_least, preemptible=record.kind.preemptible)
    try:
        chosen += [record for record in _by_turn(state, starving, now, most=most) if record not in chosen]
    finally:
        for record in reserved:
            state.queues.hold(record.queue, record.kind.amounts_least, sign=-1, preemptible=record.kind.preemptible)
    return chosen[:most]


def _by_turn(state: State, starving: list[JobRecord], now: Instant, *, most: int) -> list[JobRecord]:
    heaps: dict[str, list[tuple[Place, str]]] = {}
    for record in starving:
        heaps.setdefault(record.queue, []).append(entry_of(record))
    turns = Turns(state.queues, now)
    for queue, heap in heaps.items():
        heapq.heapify(heap)
        turns.offer(queue, heap[0][0], state.jobs.records[heap[0][1]].kind.amounts)
    chosen = list[JobRecord]()
    while len(chosen) < most and (queue := turns.next()):
        heap = heaps[queue]
        chosen.append(record := state.jobs.records[heapq.heappop(heap)[1]])
        state.queues.hold(queue, record.kind.amounts_least, preemptible=record.kind.preemptible)
        if heap:
            turns.offer(queue, heap[0][0], state.jobs.records[heap[0][1]].kind.amounts)
        else:
            turns.leave(queue)
    for record in chosen:
        state.queues.hold(record.queue, record.kind.amounts_least, sign=-1, preemptible=record.kind.preemptible)
    return chosen


class Smallest:
    """The smallest requests that are known, of all jobs that are remembered."""

    def __init__(self, state: State) -> None:
        self._least: dict[bool, list[tuple[_Size, GangRequest]]] = {}
        by_gang: dict[GangRequest, _Size] = {kind.gang: _size(kind) for kind in state.jobs.kinds()}
        for has_gpus in (False, True):
            sizes = ((size, gang) for gang, size in by_gang.items() if size[0] is has_gpus)
            self._least[has_gpus] = heapq.nsmallest(2, sizes, key=lambda entry: entry[0])

    def may_pass_by(self, kind: Kind) -> bool:
        """Whether there is somebody else who asks for no more than this."""
        size = _size(kind)
        return any(other != kind.gang and least <= size for least, other in self._least[size[0]])


def _size(kind: Kind) -> _Size:
    amounts = kind.amounts_least
    return bool(kind.gpu_milli), kind.gpu_milli, amounts.get("cpu_milli", 0), amounts.get("memory_mib", 0)
