"""The outcome of every task, fact by fact. Pure: the caller passes in what it observes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from muster.openb.trace import OpenbTask
from muster.schemas.base import Payload
from muster.schemas.facts.job import JobFinished, JobUnschedulable
from muster.schemas.job import Phase
from muster.schemas.views import JobView

EARLY_MAX = 10_000
"""Maximum number of observed jobs without a known task: their submission is not answered yet, or they are unrelated."""


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A job was in this phase at `at`."""

    job_id: str
    phase: Phase
    at: int
    """Time of the broker, in nanoseconds."""
    reason: str = ""
    """Why the job waits, or how it ended; `detail` likewise."""
    detail: str = ""


_PHASES = {
    "submitted": Phase.SUBMITTED,
    "routed": Phase.SUBMITTED,
    "queued": Phase.QUEUED,
    "unschedulable": Phase.QUEUED,
    "placed": Phase.PLACED,
    "running": Phase.RUNNING,
    **{phase.value: phase for phase in Phase if phase.is_terminal},
}


def seen_in_fact(*, job_id: str, name: str, at: int, payload: Payload | None = None) -> JobSeen | None:
    """Return the phase that a job's fact `name` reports; None if it reports none."""
    phase = _PHASES.get(name)
    if phase is None:
        return None
    match payload:
        case JobUnschedulable():
            return JobSeen(job_id, phase, at, payload.reason, payload.detail)
        case JobFinished():
            return JobSeen(job_id, phase, at, payload.reason)
        case _:
            return JobSeen(job_id, phase, at)


def seen_in_view(view: JobView) -> tuple[JobSeen, ...]:
    """Return the phases that a row of the read model reports for its job."""
    moments = (
        (Phase.SUBMITTED, view.submitted_at),
        (Phase.PLACED, view.placed_at),
        (view.phase, view.ended_at if view.phase.is_terminal else 0),
    )
    seen = [JobSeen(view.id, phase, at, view.reason, view.detail) for phase, at in moments if at]
    if view.phase is Phase.QUEUED:
        seen.append(JobSeen(view.id, Phase.QUEUED, view.queued_at, view.reason, view.detail))
    return tuple(seen)


class Fate(StrEnum):
    """Outcome of a task. UNFINISHED: placed, but not ended when the replay gave up."""

    FINISHED = "finished"
    NEVER_PLACED = "never-placed"
    REFUSED = "refused"
    UNFINISHED = "unfinished"


@dataclass(slots=True)
class TaskRecord:
    """State of one task. Times are the broker's, in nanoseconds, 0 until they are known."""

    task: OpenbTask
    job_id: str = ""
    phase: Phase = Phase.SUBMITTED
    submitted_at: int = 0
    placed_at: int = 0
    ended_at: int = 0
    reason: str = ""
    detail: str = ""
    is_refused: bool = False
    is_given_up: bool = False

    @property
    def is_over(self) -> bool:
        """Return whether the outcome of the task is final."""
        return self.is_refused or self.is_given_up or self.phase.is_terminal

    @property
    def fate(self) -> Fate:
        """Return the outcome so far."""
        if self.is_refused:
            return Fate.REFUSED
        if not self.placed_at:
            return Fate.NEVER_PLACED
        return Fate.UNFINISHED if self.is_given_up or not self.phase.is_terminal else Fate.FINISHED

    @property
    def wait_s(self) -> float:
        """Return the seconds from submitted to placed, by the broker's clock."""
        return max(0, self.placed_at - self.submitted_at) / 1e9


@dataclass(frozen=True, slots=True)
class Counts:
    """Progress of a replay. submitted: of `total`; live: placed and not ended."""

    total: int
    submitted: int
    waiting: int
    live: int
    over: int


@dataclass
class Account:
    """All tasks by their index in the trace, with the observed state of their jobs."""

    tasks: Sequence[OpenbTask]
    records: list[TaskRecord] = field(init=False)
    changes: int = 0
    """Number of changes so far."""
    _by_job: dict[str, TaskRecord] = field(default_factory=dict)
    _early: dict[str, list[JobSeen]] = field(default_factory=dict)
    _live: int = 0
    _over: int = 0
    _refused: int = 0

    def __post_init__(self) -> None:
        self.records = [TaskRecord(task) for task in self.tasks]

    def submitted(self, index: int, job_id: str) -> None:
        """Record that task `index` is job `job_id`, and apply earlier observations of the job."""
        record = self.records[index]
        record.job_id = job_id
        self._by_job[job_id] = record
        self.changes += 1
        for seen in self._early.pop(job_id, ()):
            self.see(seen)

    def refused(self, index: int, reason: str) -> None:
        """Record that task `index` was refused as a job."""
        record = self.records[index]
        record.is_refused, record.reason = True, reason
        self._refused += 1
        self._over += 1
        self.changes += 1

    def give_up(self, record: TaskRecord) -> None:
        """Freeze the state of a task, since its later cancellation is not an outcome of the fleet."""
        was_live, was_over = self._stands(record)
        record.is_given_up = True
        self._live -= was_live
        self._over += not was_over
        self.changes += 1

    def see(self, seen: JobSeen) -> None:
        """Record that a job was seen in a phase; ignore older observations and unrelated jobs."""
        record = self._by_job.get(seen.job_id)
        if record is None:
            if len(self._early) >= EARLY_MAX:
                del self._early[next(iter(self._early))]
            self._early.setdefault(seen.job_id, []).append(seen)
            return
        if record.is_given_up:
            return
        was_live, was_over = self._stands(record)
        self._fold(record, seen)
        is_live, is_over = self._stands(record)
        self._live += is_live - was_live
        self._over += is_over - was_over

    def counts(self) -> Counts:
        """Return the progress of the replay."""
        submitted = len(self._by_job) + self._refused
        return Counts(len(self.records), submitted, submitted - self._live - self._over, self._live, self._over)

    def open(self) -> Iterator[TaskRecord]:
        """Yield the tasks whose end, or whose placement, is not known yet."""
        return (record for record in self._by_job.values() if not record.is_over or not record.placed_at)

    @property
    def is_complete(self) -> bool:
        """Return whether the outcome of every task is final."""
        return self._over == len(self.records)

    @staticmethod
    def _stands(record: TaskRecord) -> tuple[bool, bool]:
        return bool(record.placed_at) and not record.is_over, record.is_over

    def _fold(self, record: TaskRecord, seen: JobSeen) -> None:
        before = (record.phase, record.placed_at, record.submitted_at, record.ended_at, record.reason)
        if seen.phase is Phase.SUBMITTED or not record.submitted_at:
            record.submitted_at = min(record.submitted_at or seen.at, seen.at)
        if seen.phase is Phase.PLACED:
            record.placed_at = record.placed_at or seen.at
        if seen.phase.is_terminal and not record.is_over:
            record.ended_at, record.phase = seen.at, seen.phase
        elif not record.is_over and seen.phase is not Phase.SUBMITTED:
            record.phase = seen.phase
        if seen.reason:
            record.reason, record.detail = seen.reason, seen.detail
        after = (record.phase, record.placed_at, record.submitted_at, record.ended_at, record.reason)
        self.changes += after != before
