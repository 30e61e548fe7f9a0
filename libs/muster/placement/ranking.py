"""The best states for each request, kept sorted per request.

A request's heap has every state on which it fits, in order of preference. New states are pushed at the next use of the
heap; states without nodes are dropped when they reach the top. So a decision costs O(log states) plus the changes since
the request's last decision, and never more than ranking the live states again.
"""

from heapq import heapify, heappop, heappush

from muster.placement.demand import Demand
from muster.placement.devices import is_apart
from muster.placement.ledger import Ledger
from muster.placement.shapes import DEVICE_MILLI, TaskShape
from muster.placement.state import NodeState, StateKey, fits, outcomes, stands_within

SHAPES_MAX = 512
"""Distinct requests whose ranking is kept; beyond it all rankings are dropped."""

GRADES_MAX = 250_000
"""Cached (state, request) grades; beyond it they are dropped."""

NO_FIT = -1
_SHARES = 1024  # more than DEVICE_MILLI: a grade packs the preference and the device's idle share in one integer
_POINTS_END = 2 * 101  # points are 0 to 100, each with or without closeness

Entry = tuple[int, StateKey, NodeState]


class _Heap:
    __slots__ = ("entries", "number", "seen", "shape")

    def __init__(self, shape: TaskShape, number: int) -> None:
        self.shape = shape
        self.number = number
        self.entries: list[Entry] = []
        self.seen = -1


class Ranking:
    """States in order of preference per request.

    First a preferred level inside the node, then the score, then close devices, then fewest idle GPUs and least CPU.
    """

    def __init__(self, ledger: Ledger, demand: Demand) -> None:
        self._ledger = ledger
        self._heaps: dict[TaskShape, _Heap] = {}
        self._numbers = 0
        self._graded = 0
        self.demand = demand

    def set_demand(self, demand: Demand) -> None:
        """Score by this demand from now on, and drop all rankings."""
        self.demand = demand
        self._forget()

    def best(self, shape: TaskShape) -> NodeState | None:
        """Return the state that the request prefers; None if it fits nowhere."""
        heap = self._heaps.get(shape)
        if heap is None:
            heap = self._new_heap(shape)
        self._catch_up(heap)
        entries = heap.entries
        while entries:
            state = entries[0][2]
            if state.names:
                return state
            heappop(entries)
        return None

    def entry(self, state: NodeState, shape: TaskShape) -> Entry | None:
        """Return the sort key of a state by this request's preference; None if it does not fit."""
        heap = self._heaps.get(shape)
        grade = self._grade(state, shape, (heap or self._new_heap(shape)).number)
        return None if grade == NO_FIT else (-(grade // _SHARES), state.key, state)

    def share_for(self, shape: TaskShape, state: NodeState) -> int:
        """Return the idle share of the device to choose on a node in this state; the request must fit."""
        if not shape.gpu_milli or shape.full_node:
            return DEVICE_MILLI
        heap = self._heaps.get(shape)
        grade = self._grade(state, shape, (heap or self._new_heap(shape)).number)
        assert grade != NO_FIT, f"{shape} does not fit on {state.key}"
        return grade % _SHARES

    def _new_heap(self, shape: TaskShape) -> _Heap:
        if len(self._heaps) >= SHAPES_MAX:
            self._forget()
        self._numbers += 1
        heap = self._heaps[shape] = _Heap(shape, self._numbers)
        return heap

    def _catch_up(self, heap: _Heap) -> None:
        ledger, entries = self._ledger, heap.entries
        end = ledger.news_start + len(ledger.news)
        behind = end - heap.seen
        if not behind:
            return
        shape, number = heap.shape, heap.number
        live = len(ledger.live)
        if heap.seen < ledger.news_start or behind > live or len(entries) > 64 + 4 * live:
            heap.entries = [
                (-(grade // _SHARES), state.key, state)
                for state in ledger.live
                if (grade := self._grade(state, shape, number)) != NO_FIT
            ]
            heapify(heap.entries)
        else:
            for state in ledger.news[heap.seen - ledger.news_start :]:
                if state.names:
                    grade = self._grade(state, shape, number)
                    if grade != NO_FIT:
                        heappush(entries, (-(grade // _SHARES), state.key, state))
        heap.seen = end

    def _grade(self, state: NodeState, shape: TaskShape, number: int) -> int:
        grade = state.grades.get(number)
        if grade is None:
            if self._graded >= GRADES_MAX:
                self._make_room()
            grade = state.grades[number] = grade_of(state.key, shape, self.demand)
            self._graded += 1
        return grade

    def _make_room(self) -> None:
        """Drop the grades of states without nodes, and if these were few, all grades."""
        for state in self._ledger.states.values():
            if not state.names:
                state.grades.clear()
        self._graded = sum(len(state.grades) for state in self._ledger.live)
        if self._graded > GRADES_MAX // 2:
            self._forget_grades()

    def _forget_grades(self) -> None:
        self._graded = 0
        for state in self._ledger.states.values():
            state.grades.clear()

    def _forget(self) -> None:
        self._heaps.clear()
        self._forget_grades()


def grade_of(key: StateKey, shape: TaskShape, demand: Demand) -> int:
    """Return NO_FIT, or the preference for such a node and the idle share of the best device, in one integer.

    Among devices of equal points the tightest is chosen. An exclusive node is not scored: the score would prefer nodes
    that are larger than requested.
    """
    if not fits(key, shape):
        return NO_FIT
    share, points = 0, 0
    if not demand or shape.full_node:
        share = next(outcomes(key, shape))[0]
    else:
        points = -1
        for choice, after in outcomes(key, shape):
            score = demand.points(key, after)
            if score > points:
                points, share = score, choice
    return (_POINTS_END * _is_as_requested(key, shape) + 2 * points + _is_close(key, shape)) * _SHARES + share


def _is_as_requested(key: StateKey, shape: TaskShape) -> bool:
    """Return whether a preferred level inside the node holds the devices, which counts more than the score."""
    return bool(shape.within) and not shape.within_required and stands_within(key, shape, shape.within)


def _is_close(key: StateKey, shape: TaskShape) -> bool:
    """Return whether a replica's devices would be close together, without using an idle node for it.

    Counts less than the score and more than packing. Nodes without device domains count as close.
    """
    if not key.parts or shape.gpus < 2 or shape.full_node:
        return True
    return not key.whole and not is_apart(key.parts, shape.gpus)
