"""Calls that wait for the API server, in order, each with its purpose.

Every part of the cluster's core adds calls; the sink takes a bounded number at a time and reports the outcomes to the
part that serves the purpose. Unanswered calls are repeated after a while: every call is safe to repeat.
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
"""Wait before an unanswered call is repeated: the first, and the longest."""
STALE_MAX = 1000
"""Cancelled entries kept beyond the number of open ones."""

AT_ONCE = Instant(0)


class Purpose:
    """The purpose of a call: a frozen value by which its owner finds the subject again.

    There is one call at a time for equal purposes; details of a call are not compared.
    """

    __slots__ = ()


KeyT = TypeVar("KeyT", str, tuple[str, int])
PurposeT = TypeVar("PurposeT", bound=Purpose)
PurposeT_contra = TypeVar("PurposeT_contra", contravariant=True)


class Asker(Protocol[PurposeT_contra]):
    """The owner of calls."""

    def answered(self, purpose: PurposeT_contra, outcome: Outcome, now: Instant) -> None:
        """Take the outcome of a call: once, unless it was cancelled before it began.

        The subject may be forgotten meanwhile.
        """
        ...


@dataclass(slots=True, eq=False)
class Task:
    """One call."""

    purpose: Purpose
    call: Call
    at: Instant = AT_ONCE
    """Earliest time."""
    is_urgent: bool = False
    """Before calls that are not urgent."""
    tries: int = 0
    """Attempts without an answer."""
    is_under_way: bool = False
    is_cancelled: bool = False


class Due(Generic[KeyT]):
    """Subjects to evaluate: changed ones with the next batch, and those that are due."""

    def __init__(self) -> None:
        self._now: dict[KeyT, None] = {}
        self._later: list[tuple[Instant, KeyT]] = []

    def mark(self, *keys: KeyT) -> None:
        """Evaluate these with the next batch."""
        self._now.update(dict.fromkeys(keys))

    def mark_at(self, key: KeyT, at: Instant) -> None:
        """Evaluate this one at a time."""
        heapq.heappush(self._later, (at, key))

    def take(self, now: Instant) -> Collection[KeyT]:
        """Return what is due, in the order in which it became so."""
        while self._later and self._later[0][0] <= now:
            self._now[heapq.heappop(self._later)[1]] = None
        due, self._now = self._now, {}
        return due

    def drop(self, key: KeyT) -> None:
        """Forget a subject that is over."""
        self._now.pop(key, None)

    def next_at(self) -> Instant | None:
        """Return when `take` could return any by time alone: 0 if it has some now, None if never."""
        if self._now:
            return AT_ONCE
        return self._later[0][0] if self._later else None

    def clear(self) -> None:
        """Forget everything, because another process leads."""
        self._now.clear()
        self._later.clear()


class Worklist:
    """A list with one call per purpose; `seed` spreads waits."""

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
        """Register the owner of purposes of this class and its subclasses."""
        self._askers[family] = cast("Asker[Purpose]", asker)  # `finished` tells it of no others

    def ask(self, purpose: Purpose, call: Call, *, at: Instant = AT_ONCE, is_urgent: bool = False) -> bool:
        """Add a call, not before `at`. False if a call for this purpose is waiting or in progress.

        Urgent calls go first: those that finish something before those that begin more.
        """
        if purpose in self._tasks:
            return False
        task = self._tasks[purpose] = Task(purpose, call, at, is_urgent)
        self._queue(task)
        return True

    def asks(self, purpose: Purpose) -> bool:
        """Return whether a call for this purpose is waiting or in progress."""
        return purpose in self._tasks

    def tries(self, purpose: Purpose) -> int:
        """Return the attempts without an answer."""
        task = self._tasks.get(purpose)
        return 0 if task is None else task.tries

    def cancel(self, purpose: Purpose) -> bool:
        """Cancel a call. False if it is in progress: then its outcome is reported, and it is not repeated."""
        task = self._tasks.get(purpose)
        if task is None:
            return True
        task.is_cancelled = True
        if task.is_under_way:
            return False
        del self._tasks[purpose]
        return True

    def take(self, now: Instant) -> Task | None:
        """Return the next call; report its outcome to `finished`."""
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
        """Take the outcome of a call. One from before `clear` is ignored."""
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
        """Return when `take` could return more by time alone; None if never, 0 if now."""
        if self._ready or self._urgent:
            return AT_ONCE
        return self._later[0][0] if self._later else None

    def clear(self) -> None:
        """Forget everything, because another process leads."""
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
