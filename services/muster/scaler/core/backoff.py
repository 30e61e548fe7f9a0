"""Pending queues that no pass looks at, because nothing could be done and that was reported, until something changes.

So a pass costs what is to be done, however many equivalence classes wait. All of it is a cache: a scaler that takes
over finds every queue active, looks at each once, and reports the same.
"""

from heapq import heapify

from muster.core import NS_PER_S, Instant
from muster.scaler.core import limits
from muster.scaler.core.jobs import Entry, PendingQueue, Shape
from muster.scaler.core.state import State

Place = tuple[Entry, int, PendingQueue]
"""One job of a queue: its place among all that wait, and its index in the queue."""


class Backoff:
    """wake: when one of them may be helped by time alone, or is looked at because places came free; None: never."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._shapes: dict[Shape, None] = {}
        self._supply = supply_of(state)
        self._freed = 0
        self._reported_at = Instant(0)
        self._rests_until: Instant | None = None
        self.wake: Instant | None = None

    def active(self, now: Instant) -> list[Place]:
        """Return the first job of every queue that is not in backoff, as a heap."""
        state, touched = self._state, self._state.demand.touched
        for shape in touched:
            self._shapes.pop(shape, None)
        touched.clear()
        self.wake = self._rests_until
        if self._shapes and not self._stays(now):
            self._shapes.clear()
        if not self._shapes:
            self._supply, self._freed = supply_of(state), state.freed
            self._reported_at, self._rests_until, self.wake = Instant(0), None, None
        if len(self._shapes) > limits.TRIED_SPARE + 2 * len(state.demand.pending):
            self._shapes = {shape: None for shape in self._shapes if shape in state.demand.pending}
        in_backoff = self._shapes
        places = [(queue.jobs[0], 0, queue) for shape, queue in state.demand.pending.items() if shape not in in_backoff]
        heapify(places)
        return places

    def put(self, shape: Shape, *, reported_at: Instant, rests_until: Instant) -> None:
        """Put a queue for which nothing can be done, as was reported, into backoff. rests_until: as in `Tried`."""
        self._shapes[shape] = None
        self._reported_at = max(self._reported_at, reported_at)
        if rests_until:
            self._rests_until = rests_until if self._rests_until is None else min(self._rests_until, rests_until)

    def _stays(self, now: Instant) -> bool:
        """Whether nothing changed for any of them."""
        state = self._state
        if self._supply != supply_of(state) or (self._rests_until is not None and self._rests_until <= now):
            return False
        if self._freed == state.freed:
            return True
        again = look_again_at(state)
        if again <= now or state.freed_at <= self._reported_at:
            return False
        self.wake = again if self.wake is None else min(self.wake, again)
        return True


def look_again_at(state: State) -> Instant:
    """When those that were refused are looked at again because places came free: the more they are, the less often."""
    rounds = 1 + len(state.demand.pending) // limits.LOOK_AGAIN_QUEUES
    grid_ns = round(limits.LOOK_AGAIN_S * rounds * NS_PER_S)
    return Instant(-(-state.freed_at // grid_ns) * grid_ns)


def supply_of(state: State) -> tuple[int, int]:
    """Grows when there may be something that was not to be had before."""
    return state.supply, state.pool.version
