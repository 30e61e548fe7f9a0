"""What became of every task, fact by fact. Pure: whoever drives the replay tells it what was seen."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from muster.openb.trace import OpenbTask
from muster.schemas.base import Payload
from muster.schemas.facts.job import JobFinished, JobUnschedulable
from muster.schemas.job import Phase
from muster.schemas.views import JobView

EARLY_MAX = 10_000
"""Jobs seen that are not known to be ours (yet): their submission is still being answered, or they are others'."""


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A job was in this phase at `at`, the broker's time in nanoseconds. reason, detail: why it waits, or ended."""

    job_id: str
    phase: Phase
    at: int
    reason: str = ""
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
    """What a job's fact `name` says of its phase; None if nothing."""
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
    """What the read model's row says of the phases that the job went through."""
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
    """How a task's story ended. UNFINISHED: placed, and not ended when the replay gave up."""

    FINISHED = "finished"
    NEVER_PLACED = "never-placed"
    REFUSED = "refused"
    UNFINISHED = "unfinished"


@dataclass(slots=True)
class TaskRecord:
    """One task on its way. Times are the broker's, in nanoseconds, 0 while they have not come."""

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
        """Nothing more will come that counts."""
        return self.is_refused or self.is_given_up or self.phase.is_terminal

    @property
    def fate(self) -> Fate:
        """As things stand."""
        if self.is_refused:
            return Fate.REFUSED
        if not self.placed_at:
            return Fate.NEVER_PLACED
        return Fate.UNFINISHED if self.is_given_up or not self.phase.is_terminal else Fate.FINISHED

    @property
    def wait_s(self) -> float:
        """Seconds from submitted to placed, by the broker's clock."""
        return max(0, self.placed_at - self.submitted_at) / 1e9


@dataclass(frozen=True, slots=True)
class Counts:
    """How far a replay is. submitted: of `total`; live: placed and not ended."""

    total: int
    submitted: int
    waiting: int
    live: int
    over: int


@dataclass
class Account:
    """All tasks by their place in the trace, and what was seen of their jobs. changes: grows with whatever was new."""

    tasks: Sequence[OpenbTask]
    records: list[TaskRecord] = field(init=False)
    changes: int = 0
    _by_job: dict[str, TaskRecord] = field(default_factory=dict)
    _early: dict[str, list[JobSeen]] = field(default_factory=dict)
    _live: int = 0
    _over: int = 0
    _refused: int = 0

    def __post_init__(self) -> None:
        self.records = [TaskRecord(task) for task in self.tasks]

    def submitted(self, index: int, job_id: str) -> None:
        """Task `index` is job `job_id`. What was seen of the job before is made up for."""
        record = self.records[index]
        record.job_id = job_id
        self._by_job[job_id] = record
        self.changes += 1
        for seen in self._early.pop(job_id, ()):
            self.see(seen)

    def refused(self, index: int, reason: str) -> None:
        """Task `index` was not accepted as a job."""
        record = self.records[index]
        record.is_refused, record.reason = True, reason
        self._refused += 1
        self._over += 1
        self.changes += 1

    def give_up(self, record: TaskRecord) -> None:
        """It stays as it stands: what cancelling it does is not the fleet's doing."""
        was_live, was_over = self._stands(record)
        record.is_given_up = True
        self._live -= was_live
        self._over += not was_over
        self.changes += 1

    def see(self, seen: JobSeen) -> None:
        """A job was seen in a phase; what is older than what is known, or about a foreign job, changes nothing."""
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
        """Where the replay stands."""
        submitted = len(self._by_job) + self._refused
        return Counts(len(self.records), submitted, submitted - self._live - self._over, self._live, self._over)

    def open(self) -> Iterator[TaskRecord]:
        """Jobs of which it is not known that they ended, or of which the end is known and not the placement."""
        return (record for record in self._by_job.values() if not record.is_over or not record.placed_at)

    @property
    def is_complete(self) -> bool:
        """Every task is over."""
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
