"""How a replay kept its pace: when tasks were submitted, beside when the trace had them. Pure.

A driver that cannot submit as fast as it should falls behind its plan; then the trace's time is where the driver was
in the trace, not the time that passed multiplied by the speed-up.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from muster.openb.account import TaskRecord

NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Submission:
    """A task of the trace's moment `trace_s` was submitted `wall_s` after the first one, both in seconds."""

    wall_s: float
    trace_s: float


def submissions(records: Sequence[TaskRecord]) -> tuple[Submission, ...]:
    """Of all tasks that became jobs, in the order in which they did."""
    times = sorted((record.submitted_at, record.task.creation_s) for record in records if record.submitted_at)
    began = times[0][0] if times else 0
    return tuple(Submission((at - began) / NS_PER_S, trace_s) for at, trace_s in times)


def lateness_s(submitted: Sequence[Submission], *, speedup: float) -> list[float]:
    """By how many seconds each task was submitted later than planned, shortest first; the first one is on time."""
    start_s = submitted[0].trace_s if submitted else 0.0
    return sorted(max(0.0, one.wall_s - (one.trace_s - start_s) / speedup) for one in submitted)


class TraceClock:
    """The trace's moment at each moment of the replay: linear between submissions, at `speedup` after the last.

    Never goes back: what was submitted out of its turn does not count.
    """

    def __init__(self, submitted: Sequence[Submission], *, speedup: float) -> None:
        self._speedup = speedup
        self._wall_s: list[float] = [0.0]
        self._trace_s: list[float] = [submitted[0].trace_s if submitted else 0.0]
        for one in submitted:
            if one.trace_s > self._trace_s[-1]:
                self._wall_s.append(one.wall_s)
                self._trace_s.append(one.trace_s)

    def trace_s(self, wall_s: float) -> float:
        """The trace's moment `wall_s` after the first submission, both in seconds."""
        after = bisect_right(self._wall_s, wall_s)
        begin_s, from_s = self._wall_s[after - 1], self._trace_s[after - 1]
        if after == len(self._wall_s):
            return from_s + (wall_s - begin_s) * self._speedup
        return from_s + (wall_s - begin_s) * (self._trace_s[after] - from_s) / (self._wall_s[after] - begin_s)
