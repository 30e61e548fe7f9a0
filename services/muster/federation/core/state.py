"""What the federation believes: every live job, what was asked of it, and the clusters' last words."""

from collections import Counter
from dataclasses import dataclass, field

from muster.schemas.facts.control import ClusterSummary
from muster.schemas.facts.device import ComposeWish
from muster.schemas.facts.job import JobCancelRequested, RoutedState
from muster.schemas.facts.job_wishes import JobWish
from muster.schemas.facts.queue import QueueWish
from muster.schemas.facts.reservation import ReservationWish
from muster.schemas.facts.workload import RefusalState
from muster.schemas.job import Job, Phase

ENDED_KEPT = 4_000
"""Ended jobs that are remembered; what still comes for older ones is counted as unknown."""


@dataclass(slots=True)
class RoutedJob:
    """One job. cluster: empty while it is not routed. cancel: the newest cancellation, told by `cancel_fact`.

    wishes: what else was asked of it and is not yet forwarded.
    """

    job: Job
    last_fact: str
    cluster: str = ""
    phase: Phase = Phase.SUBMITTED
    cancel: JobCancelRequested | None = None
    cancel_fact: str = ""
    cancel_forwarded: bool = False
    wishes: tuple[JobWish, ...] = ()

    def stored(self) -> RoutedState:
        """The record as a state fact."""
        return RoutedState(
            job=self.job,
            job_id=self.job.id,
            cluster=self.cluster,
            phase=self.phase,
            cancel_requested=self.cancel is not None,
            cancel_forwarded=self.cancel_forwarded,
            last_fact=self.last_fact,
            cancel=self.cancel,
            cancel_fact=self.cancel_fact,
            wishes=self.wishes,
        )


@dataclass(slots=True)
class State:
    """dirty: jobs that may need an answer. wishes, reservations, devices: what was asked of queues, of reservations and
    of devices and not yet forwarded, by the fact that asked. refusals: not yet forwarded, by the job that is refused.

    facts: folded since the last `checkpoint-requested`.
    """

    jobs: dict[str, RoutedJob] = field(default_factory=dict)
    ended: dict[str, None] = field(default_factory=dict)
    dirty: dict[str, None] = field(default_factory=dict)
    wishes: dict[str, QueueWish] = field(default_factory=dict)
    reservations: dict[str, ReservationWish] = field(default_factory=dict)
    devices: dict[str, ComposeWish] = field(default_factory=dict)
    refusals: dict[str, RefusalState] = field(default_factory=dict)
    clusters: dict[str, ClusterSummary] = field(default_factory=dict)
    anomalies: Counter[str] = field(default_factory=Counter)
    facts: int = 0
    checkpoint_cause: str = ""

    def end(self, record: RoutedJob, phase: Phase) -> None:
        """The job ended; the oldest of the ended are forgotten."""
        record.phase, record.wishes = phase, ()
        self.ended[record.job.id] = None
        self.dirty.pop(record.job.id, None)
        while len(self.ended) > ENDED_KEPT:
            oldest = next(iter(self.ended))
            del self.ended[oldest], self.jobs[oldest]
