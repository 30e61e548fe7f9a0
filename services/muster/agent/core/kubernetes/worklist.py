"""Calls that wait for the API server, in the order in which they were asked, each with who is told its outcome.

Every part of the cluster's core asks here; the shell takes as many at a time as it may have under way and tells what
came of them. What nobody answered is asked again after a while, because every call is safe to repeat.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from muster.agent.core.kubernetes.calls import Call, Outcome, Unanswered
from muster.core import Instant, after
from muster.core.seeded import uniform

BACKOFF_S_MIN, BACKOFF_S_MAX = 0.5, 15.0
"""Wait before a call that nobody answered is asked again: the first, and the longest."""
STALE_MAX = 1000
"""Cancelled entries that wait for their moment, beyond as many as are asked for."""

AT_ONCE = Instant(0)
Then = Callable[[Outcome, Instant], None]
"""Told what came of a call, and when: once, unless the call was cancelled before it began."""


@dataclass(slots=True, eq=False)
class Task:
    """One call. key: of which there is one at a time. at: not before. is_urgent: before others. tries: unanswered."""

    key: Hashable
    call: Call
    then: Then = field(repr=False)
    at: Instant = AT_ONCE
    is_urgent: bool = False
    tries: int = 0
    is_under_way: bool = False
    is_cancelled: bool = False


class Worklist:
    """Bounded by what asks: one call per key. seed: spreads what waits."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._tasks: dict[Hashable, Task] = {}
        self._ready: deque[Task] = deque()
        self._urgent: deque[Task] = deque()
        self._later: list[tuple[Instant, int, Task]] = []
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._tasks)

    def ask(self, key: Hashable, call: Call, then: Then, *, at: Instant = AT_ONCE, is_urgent: bool = False) -> bool:
        """Have it done, not before `at`. False if something is asked for under this key already, or under way.

        is_urgent: before all that is not: what finishes something goes before what begins more.
        """
        if key in self._tasks:
            return False
        task = self._tasks[key] = Task(key, call, then, at, is_urgent)
        self._queue(task)
        return True

    def asks(self, key: Hashable) -> bool:
        """Whether something waits or is under way under this key."""
        return key in self._tasks

    def tries(self, key: Hashable) -> int:
        """How often nobody answered what is asked under this key."""
        task = self._tasks.get(key)
        return 0 if task is None else task.tries

    def cancel(self, key: Hashable) -> bool:
        """Do not do it. False if it is under way: then its outcome is told, whatever it is, and it is not repeated."""
        task = self._tasks.get(key)
        if task is None:
            return True
        task.is_cancelled = True
        if task.is_under_way:
            return False
        del self._tasks[key]
        return True

    def take(self, now: Instant) -> Task | None:
        """The next call to make; tell `finished` what came of it."""
        while self._later and self._later[0][0] <= now:
            self._make_ready(heapq.heappop(self._later)[2])
        for ready in (self._urgent, self._ready):
            while ready:
                task = ready.popleft()
                if not task.is_cancelled:
                    task.is_under_way = True
                    return task
        return None

    def finished(self, task: Task, outcome: Outcome, now: Instant) -> None:
        """What came of a call that was taken. One of an earlier life of the list counts for nothing."""
        if self._tasks.get(task.key) is not task:
            return
        task.is_under_way = False
        if isinstance(outcome, Unanswered) and not task.is_cancelled:
            task.tries += 1
            task.at = after(now, max(outcome.retry_after_s, self._backoff_s(task)))
            self._queue(task)
            return
        del self._tasks[task.key]
        task.then(outcome, now)

    def next_at(self) -> Instant | None:
        """When `take` could give more by time alone; None if never, 0 if it has some now."""
        if self._ready or self._urgent:
            return AT_ONCE
        return self._later[0][0] if self._later else None

    def clear(self) -> None:
        """Forget everything: another leads."""
        for task in self._tasks.values():
            task.is_cancelled = True
        self._tasks.clear()
        self._ready.clear()
        self._urgent.clear()
        self._later.clear()

    def _queue(self, task: Task) -> None:
        if not task.at:
            self._make_ready(task)
            return
        heapq.heappush(self._later, (task.at, next(self._numbers), task))
        if len(self._later) > len(self._tasks) + STALE_MAX:
            self._later = [entry for entry in self._later if not entry[2].is_cancelled]
            heapq.heapify(self._later)

    def _make_ready(self, task: Task) -> None:
        (self._urgent if task.is_urgent else self._ready).append(task)

    def _backoff_s(self, task: Task) -> float:
        full_s = min(BACKOFF_S_MAX, BACKOFF_S_MIN * 2.0 ** min(task.tries - 1, 10))
        return full_s * (0.5 + 0.5 * uniform(self._seed, "worklist", str(task.key), task.tries))
