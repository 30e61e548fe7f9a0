"""How often what seldom succeeds is tried: so many a second, and the same one ever more seldom."""

import heapq

from muster.core import NS_PER_S, Instant, after
from muster.scheduler.core.waiting import Lane

FREE_FAILURES = 4
"""Trials of a lane that may fail before it has to wait; each further one doubles the wait, from a second on."""

PAUSE_S_MAX = 256.0
"""So long a lane waits at most after a trial that failed."""

TRACES_MAX = 4_096
"""Lanes of which it is remembered that trials failed; beyond it all is forgotten, which costs trials."""


class Pace:
    """So much at once, so much a second in the long run. Counts the time that it is given, and only forwards."""

    def __init__(self, *, burst: float, per_s: float) -> None:
        self._burst = burst
        self._per_s = per_s
        self._left = float(burst)
        self._at = Instant(0)

    def is_ready(self, now: Instant) -> bool:
        """Whether one more may be done."""
        if now > self._at:
            self._left = min(self._burst, self._left + (now - self._at) / NS_PER_S * self._per_s)
            self._at = now
        return self._left >= 1

    def spend(self, number: float = 1) -> None:
        """So much was done; more than there was left is done in advance."""
        self._left -= number

    def next_at(self) -> Instant:
        """When the next may be done."""
        return after(self._at, max(0.0, 1 - self._left) / self._per_s + 1e-6)


class Pauses:
    """Lanes that are left alone for a while, because their first job could not be helped some times in a row."""

    def __init__(self) -> None:
        self._failures: dict[Lane, tuple[str, int, Instant]] = {}

    def until(self, lane: Lane, job_id: str) -> Instant:
        """Before this moment the lane is left alone, if this job is still the one."""
        known = self._failures.get(lane)
        return known[2] if known is not None and known[0] == job_id else Instant(0)

    def failed(self, lane: Lane, job_id: str, now: Instant) -> None:
        """One more trial failed."""
        known = self._failures.get(lane)
        times = 1 if known is None or known[0] != job_id else known[1] + 1
        if len(self._failures) >= TRACES_MAX:
            self._failures.clear()
        pause_s = 0.0 if times < FREE_FAILURES else min(PAUSE_S_MAX, 2.0 ** (times - FREE_FAILURES))
        self._failures[lane] = (job_id, times, after(now, pause_s))

    def over(self, lane: Lane) -> None:
        """The lane's job was helped."""
        self._failures.pop(lane, None)


class Alarms:
    """Lanes that are to be looked at from a moment on: one moment each, the earliest that was set."""

    def __init__(self) -> None:
        self._heap: list[tuple[Instant, int, Lane]] = []
        self._set: dict[Lane, Instant] = {}

    def set(self, lane: Lane, moment: Instant) -> None:
        """Look at the lane then."""
        known = self._set.get(lane)
        if known is None or moment < known:
            self._set[lane] = moment
            heapq.heappush(self._heap, (moment, lane.number, lane))

    def due(self, now: Instant) -> list[Lane]:
        """Lanes whose moment has come; they have none any more."""
        lanes = list[Lane]()
        while self._heap and self._heap[0][0] <= now:
            moment, _, lane = heapq.heappop(self._heap)
            if self._set.get(lane) == moment:
                del self._set[lane]
                lanes.append(lane)
        return lanes

    def next_at(self) -> Instant | None:
        """When the next moment comes."""
        while self._heap and self._set.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
