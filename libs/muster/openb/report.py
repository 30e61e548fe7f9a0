"""The report of a replay: counts, waits, allocation over time, and how far it fell behind. Pure.

A driver that cannot submit fast enough falls behind its schedule; then the trace's time is where the driver was in the
trace, not the elapsed time multiplied by the speed-up.
"""

import csv
import io
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from muster.openb.account import Account, Fate, TaskRecord
from muster.openb.trace import WHOLE_GPU_MILLI, OpenbNode
from muster.schemas.job import Phase

NS_PER_S = 1_000_000_000
POINTS_MAX = 500
"""Number of points of the allocation curve; each is a mean over its interval."""
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Submission:
    """A task at `trace_s` of the trace was submitted `wall_s` after the first one, both in seconds."""

    wall_s: float
    trace_s: float


def submissions(records: Sequence[TaskRecord]) -> tuple[Submission, ...]:
    """Return the submissions of all tasks that became jobs, in order."""
    times = sorted((record.submitted_at, record.task.creation_s) for record in records if record.submitted_at)
    began = times[0][0] if times else 0
    return tuple(Submission((at - began) / NS_PER_S, trace_s) for at, trace_s in times)


def lateness_s(submitted: Sequence[Submission], *, speedup: float) -> list[float]:
    """Return by how many seconds each task was submitted late, ascending; the first one is on time."""
    start_s = submitted[0].trace_s if submitted else 0.0
    return sorted(max(0.0, one.wall_s - (one.trace_s - start_s) / speedup) for one in submitted)


class TraceClock:
    """Time in the trace for each time of the replay: linear between submissions, at `speedup` after the last one.

    It never goes back: tasks submitted out of order do not count.
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
        """Return the time in the trace at `wall_s` after the first submission, both in seconds."""
        after = bisect_right(self._wall_s, wall_s)
        begin_s, from_s = self._wall_s[after - 1], self._trace_s[after - 1]
        if after == len(self._wall_s):
            return from_s + (wall_s - begin_s) * self._speedup
        return from_s + (wall_s - begin_s) * (self._trace_s[after] - from_s) / (self._wall_s[after] - begin_s)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class LeftTask(_Part):
    """A task that did not run to its end, with the reason."""

    task: str
    job_id: str
    fate: Fate
    reason: str
    detail: str = ""


class Wait(_Part):
    """Quantiles over tasks, in seconds by the broker's clock."""

    p50: float = 0.0
    p99: float = 0.0
    max: float = 0.0


class Point(_Part):
    """One interval of the allocation curve."""

    wall_s: float
    trace_h: float
    """Hours of the trace at the start of the interval."""
    gpus: float
    """Mean number of allocated GPUs."""
    tasks: float


class ReplayReport(_Part):
    """Results of a replay. Every task is in exactly one of finished, never_placed, refused, unfinished."""

    tasks: int
    placed: int
    finished: int
    succeeded: int
    failed: int
    never_placed: int
    refused: int
    unfinished: int
    wait_s: Wait
    """From submitted to placed, of the placed tasks."""
    wait_trace_s: Wait
    """The same in seconds of the trace, multiplied by `speedup`."""
    late_s: Wait
    """How much later than planned tasks were submitted."""
    speedup: float
    wall_s: float
    planned_s: float
    """Planned duration at `speedup`."""
    nodes: int
    gpus: int
    gpus_allocated_max: float
    left: tuple[LeftTask, ...] = ()
    allocation: tuple[Point, ...] = ()
    machine: str = ""
    """Description of the machine."""


def report_of(account: Account, nodes: Sequence[OpenbNode], *, speedup: float, machine: str = "") -> ReplayReport:
    """Return the report. nodes: the fleet that the trace ran on."""
    records = account.records
    fates = [record.fate for record in records]
    waits = sorted(record.wait_s for record in records if record.placed_at)
    submitted = submissions(records)
    began = min((record.submitted_at for record in records if record.submitted_at), default=0)
    ended = max((max(record.ended_at, record.placed_at) for record in records), default=0)
    wall_s = max(0, ended - began) / NS_PER_S
    spans = [_span(record, began, ended) for record in records if record.placed_at]
    return ReplayReport(
        tasks=len(records),
        placed=len(waits),
        finished=fates.count(Fate.FINISHED),
        succeeded=sum(record.phase is Phase.SUCCEEDED for record in records),
        failed=sum(record.phase is Phase.FAILED and bool(record.placed_at) for record in records),
        never_placed=fates.count(Fate.NEVER_PLACED),
        refused=fates.count(Fate.REFUSED),
        unfinished=fates.count(Fate.UNFINISHED),
        wait_s=_quantiles(waits),
        wait_trace_s=_quantiles([wait_s * speedup for wait_s in waits]),
        late_s=_quantiles(lateness_s(submitted, speedup=speedup)),
        speedup=speedup,
        wall_s=wall_s,
        planned_s=_span_s(records) / speedup,
        nodes=len(nodes),
        gpus=sum(node.gpus for node in nodes),
        gpus_allocated_max=_peak(spans),
        machine=machine,
        left=tuple(_left(record) for record in records if record.fate is not Fate.FINISHED),
        allocation=allocation(spans, wall_s=wall_s, trace_s=TraceClock(submitted, speedup=speedup).trace_s),
    )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the nearest rank: the smallest value that at least `percent` of all do not exceed; 0.0 without values."""
    if not ordered:
        return 0.0
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


Span = tuple[float, float, float]
"""Start and end of an allocation (seconds since the first submission), and number of GPUs."""


def allocation(
    spans: Iterable[Span], *, wall_s: float, trace_s: Callable[[float], float], points: int = POINTS_MAX
) -> tuple[Point, ...]:
    """Return the mean allocation over `points` equal intervals of `wall_s` seconds.

    trace_s: returns the time in the trace for a time since the first submission. The cost grows with the intervals that
    the spans cover.
    """
    if wall_s <= 0:
        return ()
    stretch_s = wall_s / points
    gpu_s, task_s = [0.0] * points, [0.0] * points
    for from_s, until_s, gpus in spans:
        for index in range(int(from_s / stretch_s), min(points - 1, int(until_s / stretch_s)) + 1):
            overlap_s = min(until_s, (index + 1) * stretch_s) - max(from_s, index * stretch_s)
            gpu_s[index] += gpus * max(0.0, overlap_s)
            task_s[index] += max(0.0, overlap_s)
    return tuple(
        Point(
            wall_s=index * stretch_s,
            trace_h=trace_s(index * stretch_s) / HOUR_S,
            gpus=gpu_s[index] / stretch_s,
            tasks=task_s[index] / stretch_s,
        )
        for index in range(points)
    )


def allocation_csv(report: ReplayReport) -> str:
    """Return the curve as CSV: wall_s, trace_h, gpus_allocated, gpus_total, allocated_pct, tasks_placed."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("wall_s", "trace_h", "gpus_allocated", "gpus_total", "allocated_pct", "tasks_placed"))
    for point in report.allocation:
        percent = 100 * point.gpus / report.gpus if report.gpus else 0.0
        writer.writerow(
            (
                f"{point.wall_s:.3f}",
                f"{point.trace_h:.3f}",
                f"{point.gpus:.3f}",
                report.gpus,
                f"{percent:.3f}",
                f"{point.tasks:.3f}",
            )
        )
    return out.getvalue()


def _quantiles(ordered: Sequence[float]) -> Wait:
    return Wait(p50=percentile(ordered, 50), p99=percentile(ordered, 99), max=ordered[-1] if ordered else 0.0)


def _span_s(records: Sequence[TaskRecord]) -> float:
    """Return the seconds of the trace from the first creation to the last deletion."""
    tasks = [record.task for record in records]
    return max((t.deletion_s for t in tasks), default=0.0) - min((t.creation_s for t in tasks), default=0.0)


def _span(record: TaskRecord, began: int, ended: int) -> Span:
    until = record.ended_at or ended
    return (
        max(0, record.placed_at - began) / NS_PER_S,
        max(0, until - began) / NS_PER_S,
        record.task.gpu_milli_total / WHOLE_GPU_MILLI,
    )


def _peak(spans: Sequence[Span]) -> float:
    """Return the peak number of allocated GPUs; an end at a moment counts before a start at the same moment."""
    edges = sorted(
        [(from_s, 1, gpus) for from_s, _, gpus in spans] + [(until_s, 0, -gpus) for _, until_s, gpus in spans]
    )
    held = most = 0.0
    for _, _, gpus in edges:
        held += gpus
        most = max(most, held)
    return round(most, 3)


def _left(record: TaskRecord) -> LeftTask:
    return LeftTask(
        task=record.task.name,
        job_id=record.job_id,
        fate=record.fate,
        reason=record.reason or "no reason was given",
        detail=record.detail,
    )
