"""What the log says of jobs' use of their GPUs: the newest report of each, of jobs that are over a bounded number."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from muster.core import NEVER, Draft, Fact, Instant
from muster.schemas.facts.telemetry import DayUseState, JobUseReported, JobUseState
from muster.schemas.registry import STATE_NAME
from muster.telemetry.core.accounts import Accounts

JOB = "job"
REPORTED = "use-reported"
OVER_MAX = 2_000
"""Jobs that are over and are still answered for; the one that ended first is forgotten first."""


@dataclass(slots=True, kw_only=True)
class Told(JobUseState):
    """What was said of one job."""

    reported: JobUseReported

    @property
    def unfinished(self) -> bool:
        """True if the last word is to be said."""
        return bool(self.ended_at) and not self.reported.is_last


class State:
    """Folded from what telemetry said and from the ends of jobs. told: by job; over: of these, in the order of ends.

    unfinished: jobs that are over and whose last word was not said. accounts: what teams used, by day.
    """

    def __init__(self) -> None:
        self.told: dict[str, Told] = {}
        self.over: dict[str, None] = {}
        self.unfinished: dict[str, None] = {}
        self.accounts = Accounts()
        self.anomalies: Counter[str] = Counter()

    def fold(self, fact: Fact) -> None:
        """One fact of telemetry further."""
        match fact.payload:
            case JobUseReported() as reported:
                self._reported(fact, reported)
            case JobUseState(reported=JobUseReported()) as state:
                self._restore(fact.subject_id, state)
            case DayUseState() as day:
                self.accounts.restore(day)
            case _:
                self.anomalies[fact.name] += 1

    def end(self, job_id: str, at: Instant) -> None:
        """The job is over."""
        told = self.told.get(job_id)
        if told is not None:
            told.ended_at = at
            self._settle(job_id, told)

    def begin(self, job_id: str) -> None:
        """The job comes, perhaps again: it had been given back, and what it did here before counts on."""
        told = self.told.get(job_id)
        if told is not None and told.ended_at:
            told.ended_at = NEVER
            self.over.pop(job_id, None)
            self.unfinished.pop(job_id, None)

    def _reported(self, fact: Fact, reported: JobUseReported) -> None:
        told = self.told.get(fact.subject_id)
        self.accounts.report(fact.time, reported, None if told is None else told.reported.use)
        if told is None:
            told = self.told[fact.subject_id] = Told(reported=reported, trace=fact.trace)
        elif told.reported.is_last and not reported.is_last:  # the last word crossed the job's coming again
            self.begin(fact.subject_id)
        told.reported, told.reported_at, told.fact = reported, fact.time, fact.id
        if reported.is_last and not told.ended_at:
            told.ended_at = fact.time
        self._settle(fact.subject_id, told)

    def _restore(self, job_id: str, state: JobUseState) -> None:
        told = self.told[job_id] = Told.restored(state)
        self._settle(job_id, told)

    def _settle(self, job_id: str, told: Told) -> None:
        if told.unfinished:
            self.unfinished[job_id] = None
        else:
            self.unfinished.pop(job_id, None)
        if told.ended_at and job_id not in self.over:
            self.over[job_id] = None
            while len(self.over) > OVER_MAX:
                oldest = next(iter(self.over))
                del self.over[oldest], self.told[oldest]
                self.unfinished.pop(oldest, None)

    def snapshot(self) -> Iterator[Draft]:
        """State facts, which folded into a new state give this one: those that are over come in their order."""
        live = (job_id for job_id in self.told if job_id not in self.over)
        for job_id in (*live, *self.over):
            yield Draft(JOB, job_id, STATE_NAME, self.told[job_id].as_body(JobUseState))
        yield from self.accounts.snapshot()
