"""Calls that wait for the API server, in the order in which they were asked, each with what it is for.

Every part of the cluster's core asks here; the shell takes as many at a time as it may have under way and says what
came of them, which goes to the part that serves the call's purpose. What nobody answered is asked again after a while,
because every call is safe to repeat.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, cast

from muster.agent.core.kubernetes.calls import Call, Outcome, Unanswered
from muster.core import Instant, after
from muster.core.seeded import uniform

BACKOFF_S_MIN, BACKOFF_S_MAX = 0.5, 15.0
"""Wait before a call that nobody answered is asked again: the first, and the longest."""
STALE_MAX = 1000
"""Cancelled entries that wait for their moment, beyond as many as are asked for."""

AT_ONCE = Instant(0)


class Purpose:
    """What a call is for: a frozen value by which its part finds again what it asked about.

    There is one call at a time for purposes that are equal. What only tells more of the call is not compared.
    """

    __slots__ = ()


KeyT = TypeVar("KeyT", str, tuple[str, int])
PurposeT = TypeVar("PurposeT", bound=Purpose)
PurposeT_contra = TypeVar("PurposeT_contra", contravariant=True)


class Asker(Protocol[PurposeT_contra]):
    """A part that asks for calls."""

    def answered(self, purpose: PurposeT_contra, outcome: Outcome, now: Instant) -> None:
        """What came of a call: once, unless the call was cancelled before it began.

        What it was about may be forgotten by now: then nothing follows.
        """
        ...


@dataclass(slots=True, eq=False)
class Task:
    """One call."""

    purpose: Purpose
    call: Call
    at: Instant = AT_ONCE
    """Not before."""
    is_urgent: bool = False
    """Before others."""
    tries: int = 0
    """Attempts without an answer."""
    is_under_way: bool = False
    is_cancelled: bool = False


class Due(Generic[KeyT]):
    """Subjects to look at: those of which something changed, with the next batch, and those whose time has come."""

    def __init__(self) -> None:
        self._now: dict[KeyT, None] = {}
        self._later: list[tuple[Instant, KeyT]] = []

    def mark(self, *keys: KeyT) -> None:
        """Look at these with the next batch."""
        self._now.update(dict.fromkeys(keys))

    def mark_at(self, key: KeyT, at: Instant) -> None:
        """Look at this one at an instant."""
        heapq.heappush(self._later, (at, key))

    def take(self, now: Instant) -> Collection[KeyT]:
        """Return what is due, in the order in which it became so."""
        while self._later and self._later[0][0] <= now:
            self._now[heapq.heappop(self._later)[1]] = None
        due, self._now = self._now, {}
        return due

    def drop(self, key: KeyT) -> None:
        """Forget a change: its subject is over."""
        self._now.pop(key, None)

    def next_at(self) -> Instant | None:
        """Return when `take` could return any by time alone: 0 if it has some now, None if never."""
        if self._now:
            return AT_ONCE
        return self._later[0][0] if self._later else None

    def clear(self) -> None:
        """Forget everything: another leads."""
        self._now.clear()
        self._later.clear()


class Worklist:
    """Bounded by what asks: one call per purpose. seed: spreads what waits."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._askers: dict[type[Purpose], Asker[Purpose]] = {}
        self._tasks: dict[Purpose, Task] = {}
        self._ready: deque[Task] = deque()
        self._urgent: deque[Task] = deque()
        self._later: list[tuple[Instant, int, Task]] = []
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._tasks)

    def serve(self, asker: Asker[PurposeT], family: type[PurposeT]) -> None:
        """This part asks for purposes of this class, and of those below it, and is told what comes of them."""
        self._askers[family] = cast("Asker[Purpose]", asker)  # `finished` tells it of no others

    def ask(self, purpose: Purpose, call: Call, *, at: Instant = AT_ONCE, is_urgent: bool = False) -> bool:
        """Have it done, not before `at`. False if a call for this purpose waits already, or is under way.

        is_urgent: before all that is not: what finishes something goes before what begins more.
        """
        if purpose in self._tasks:
            return False
        task = self._tasks[purpose] = Task(purpose, call, at, is_urgent)
        self._queue(task)
        return True

    def asks(self, purpose: Purpose) -> bool:
        """Whether a call for this waits or is under way."""
        return purpose in self._tasks

    def tries(self, purpose: Purpose) -> int:
        """Return the attempts without an answer."""
        task = self._tasks.get(purpose)
        return 0 if task is None else task.tries

    def cancel(self, purpose: Purpose) -> bool:
        """Do not do it. False if it is under way: then its outcome is told, whatever it is, and it is not repeated."""
        task = self._tasks.get(purpose)
        if task is None:
            return True
        task.is_cancelled = True
        if task.is_under_way:
            return False
        del self._tasks[purpose]
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
        if self._tasks.get(task.purpose) is not task:
            return
        task.is_under_way = False
        if isinstance(outcome, Unanswered) and not task.is_cancelled:
            task.tries += 1
            task.at = after(now, max(outcome.retry_after_s, self._backoff_s(task)))
            self._queue(task)
            return
        del self._tasks[task.purpose]
        self._asker_of(task.purpose).answered(task.purpose, outcome, now)

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

    def _asker_of(self, purpose: Purpose) -> Asker[Purpose]:
        return next(asker for family, asker in self._askers.items() if isinstance(purpose, family))

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
        return full_s * (0.5 + 0.5 * uniform(self._seed, "worklist", str(task.purpose), task.tries))
