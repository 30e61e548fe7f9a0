"""Figures of a Kueue run from its facts: waits, preemptions, use. Pure."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.core import Fact, seconds_between
from muster.schemas.facts.job import JobPlaced, JobQueued, JobRouted, JobStopRequested, JobSubmitted, StopReason
from muster.schemas.job import Job, Phase
from muster_tools.bench.kueue_input import CLASSES, NOMINAL_CPU_MILLI, class_of, queue_names

_RUN_S = {one.name: one.run_s for one in CLASSES}
_ENDS = frozenset(phase.value for phase in Phase if phase.is_terminal)


@dataclass(frozen=True, slots=True)
class ClassFigures:
    """Figures of one job class; admission is the time from `submitted` to the first `placed`."""

    jobs: int
    admission_mean_s: float
    admission_max_s: float
    held_over_run_s: float
    """Mean time by which successful jobs held their quota longer than their run time, in their last run."""


@dataclass(frozen=True, slots=True)
class KueueFigures:
    """Figures of the run. by_class: small, medium, large."""

    jobs: int
    succeeded: int
    wall_s: float
    """From the first `submitted` to the last end."""
    jobs_per_s: float
    use_pct: float
    """Held CPU, of all nominal CPU over that time."""
    use_min_pct: float
    """The same for the queue with the lowest use."""
    preemptions: int
    by_class: dict[str, ClassFigures]


@dataclass(slots=True)
class _Course:
    """Times of one job, in ns since the Unix epoch, 0 before they come. held_ns: over all runs."""

    name: str
    queue: str
    cpu_milli: int
    submitted_at: int
    first_placed_at: int = 0
    placed_at: int = 0
    held_ns: int = 0
    last_held_ns: int = 0
    ended_at: int = 0
    end: str = ""

    def let_go(self, at: int) -> None:
        """Record that the job's run, if any, has released its resources."""
        if self.placed_at:
            self.last_held_ns = at - self.placed_at
            self.held_ns += self.last_held_ns
            self.placed_at = 0


@dataclass(slots=True)
class Courses:
    """Fold the facts of FED (only `submitted` counts) and then those of the cluster's log."""

    jobs: dict[str, _Course] = field(default_factory=dict)
    preemptions: int = 0

    def fold(self, facts: Iterable[Fact]) -> None:
        """Fold facts, in the order of their log."""
        for fact in facts:
            if fact.kind == "job":
                self._fold(fact)

    def _fold(self, fact: Fact) -> None:
        match fact.payload:
            case JobSubmitted(job=job):
                self.jobs[job.id] = _course(job, fact.time)
                return
            case JobRouted(job=job) if job.id not in self.jobs:
                self.jobs[job.id] = _course(job, fact.time)
                return
            case JobStopRequested(reason=StopReason.PREEMPTED):
                self.preemptions += 1
        course = self.jobs.get(fact.subject_id)
        if course is None:
            return
        if isinstance(fact.payload, JobPlaced):
            course.placed_at = fact.time
            course.first_placed_at = course.first_placed_at or fact.time
        elif isinstance(fact.payload, JobQueued):
            course.let_go(fact.time)
        elif fact.name in _ENDS and not course.ended_at:
            course.let_go(fact.time)
            course.ended_at, course.end = fact.time, fact.name

    def figures(self) -> KueueFigures:
        """Return the figures of all jobs that ended. Raises ValueError if none did."""
        ended = [course for course in self.jobs.values() if course.ended_at]
        if not ended:
            raise ValueError("no job ended: there is nothing to measure")
        first = min(course.submitted_at for course in self.jobs.values())
        wall_s = seconds_between(first, max(course.ended_at for course in ended))
        held = dict.fromkeys(queue_names(), 0.0)
        for course in ended:
            held[course.queue] = held.get(course.queue, 0.0) + course.cpu_milli * course.held_ns / 1e9
        uses = [100 * cpu_milli_s / (NOMINAL_CPU_MILLI * wall_s) for cpu_milli_s in held.values()]
        return KueueFigures(
            jobs=len(self.jobs),
            succeeded=sum(course.end == Phase.SUCCEEDED for course in ended),
            wall_s=round(wall_s, 2),
            jobs_per_s=round(len(ended) / wall_s, 1),
            use_pct=round(statistics.fmean(uses), 1),
            use_min_pct=round(min(uses), 1),
            preemptions=self.preemptions,
            by_class={one.name: _class_figures(one.name, ended) for one in CLASSES},
        )


def _course(job: Job, at: int) -> _Course:
    cpu_milli = sum(group.replicas * group.cpu_milli for group in job.spec.task_groups)
    return _Course(job.spec.name, job.spec.queue_name, cpu_milli, at)


def _class_figures(name: str, ended: list[_Course]) -> ClassFigures:
    mine = [course for course in ended if class_of(course.name) == name and course.first_placed_at]
    waits = [seconds_between(course.submitted_at, course.first_placed_at) for course in mine] or [0.0]
    over = [course.last_held_ns / 1e9 - _RUN_S[name] for course in mine if course.end == Phase.SUCCEEDED] or [0.0]
    return ClassFigures(
        jobs=len(mine),
        admission_mean_s=round(statistics.fmean(waits), 3),
        admission_max_s=round(max(waits), 3),
        held_over_run_s=round(statistics.fmean(over), 3),
    )
