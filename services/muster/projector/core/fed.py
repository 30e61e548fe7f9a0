"""The federation's log folded into rows of jobs that no cluster tells of yet, and of those that never reached one."""

from typing import cast

from muster.core.fact import Fact
from muster.projector.core.projection import ENDED_KEPT, LiveJob, Projection
from muster.projector.core.ring import RING_BYTES_MAX
from muster.projector.core.rows import job_row
from muster.schemas.facts import job as jobs
from muster.schemas.job import Phase
from muster.schemas.registry import STATE_NAME
from muster.schemas.subjects import FED_STREAM

_ADDRESSED = frozenset(
    {
        "routed",
        "cancel-forwarded",
        "hold-forwarded",
        "release-forwarded",
        "priority-forwarded",
        "refusal-forwarded",
        "change-forwarded",
        "reserve-forwarded",
        "end-forwarded",
        "compose-forwarded",
        "decompose-forwarded",
        "detach-forwarded",
        "recall-forwarded",
        "drop-forwarded",
    }
)


class FedProjectorCore(Projection):
    """Rows `submitted` and the federation's own `cancelled`.

    A row stays until the job's end came back, also once a cluster's log has the job: the cluster's row is shown before
    this one, and so a reader never meets a moment without any. A fact addressed to a cluster is shown from that
    cluster's log, where the same fact arrives; so each is shown once.
    """

    def __init__(self, *, ended_kept: int = ENDED_KEPT, ring_bytes: int = RING_BYTES_MAX) -> None:
        super().__init__(stream=FED_STREAM, ended_kept=ended_kept, ring_bytes=ring_bytes)

    def is_shown(self, fact: Fact) -> bool:
        """Facts that no cluster's log has."""
        return fact.kind != "log" and fact.name not in _ADDRESSED

    def fold(self, fact: Fact) -> None:
        """Change the row of the job that the fact is about."""
        if fact.kind != "job":
            return
        match fact.name:
            case "submitted":
                self._submitted(fact)
            case "routed":
                self._routed(fact)
            case "job-ended":
                self._left_for_good(fact)
            case "cancelled":
                self._cancelled(fact)
            case _ if fact.name == STATE_NAME:
                self._state(fact)
            case _:
                return

    def _submitted(self, fact: Fact) -> None:
        job = cast("jobs.JobSubmitted", fact.payload).job
        if job.id in self._live or job.id in self._ended:
            self.anomalies += 1
            return
        row = job_row(job, cluster="", submitted_at=job.submitted_at or fact.time, seq=fact.seq)
        self._enter(LiveJob(row))

    def _routed(self, fact: Fact) -> None:
        job = self._live.get(fact.subject_id)
        if job is None:
            self.anomalies += 1
            return
        job.row.cluster = cast("jobs.JobRouted", fact.payload).cluster
        job.listed = False  # from here on its phase is the cluster's to tell
        self._touch(job, fact)

    def _left_for_good(self, fact: Fact) -> None:
        if fact.subject_id not in self._live or not self._forget(fact.subject_id):
            self.anomalies += 1

    def _cancelled(self, fact: Fact) -> None:
        job = self._live.get(fact.subject_id)
        if job is None:
            self.anomalies += 1
            return
        row = job.row
        row.phase = Phase.CANCELLED
        row.ended_at = fact.time
        row.reason = cast("jobs.JobFinished", fact.payload).reason
        row.seq = fact.seq
        self._end(job)

    def _state(self, fact: Fact) -> None:
        if not isinstance(fact.payload, jobs.RoutedState):
            return
        state = fact.payload
        if state.phase.is_terminal and state.cluster:
            return
        row = job_row(state.job, cluster=state.cluster, submitted_at=state.job.submitted_at, seq=fact.seq)
        job = LiveJob(row, listed=not state.cluster)
        self._enter(job)
        if state.phase.is_terminal:
            row.phase = state.phase
            self._end(job)
