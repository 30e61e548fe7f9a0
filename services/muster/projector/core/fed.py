"""Folds the federation's log into rows of jobs: the cluster of each, and jobs without a cluster's row."""

from muster.core.fact import Fact
from muster.core.folding import Folds
from muster.projector.core.changes import RING_BYTES_MAX
from muster.projector.core.job_table import ENDED_KEPT, JobTable, LiveJob
from muster.projector.core.projection import Projection
from muster.schemas.facts import job as jobs
from muster.schemas.facts.federation import JobRecalled, JobReturned
from muster.schemas.job import Phase
from muster.schemas.registry import STATE_NAME
from muster.schemas.subjects import FED_STREAM
from muster.schemas.views import job_view

_ADDRESSED = frozenset({"routed", "contact-renewed"})
"""Facts addressed to a cluster, like all forwarded facts."""


class FedProjectorCore(Projection):
    """Rows from `submitted` and the federation's own `cancelled`.

    A row stays until the job's end is reported, also once a cluster's log has the job: the cluster's row takes
    precedence, so a reader always finds a row. A fact addressed to a cluster is shown from that cluster's log, where
    the same fact arrives, so each is shown once.

    With several clusters, each log could have facts about any job, so readers trust the cluster that this row
    names. For that, the row also stays after the job's end, like the clusters' own rows.
    """

    _FOLDS = Folds["FedProjectorCore", None]()

    def __init__(self, *, clusters: int = 1, ended_kept: int = ENDED_KEPT, ring_bytes: int = RING_BYTES_MAX) -> None:
        """Start empty. clusters: of the federation. ended_kept: kept rows of ended jobs per cluster."""
        self._stores_clusters = clusters > 1
        jobs = JobTable(ended_kept=ended_kept * clusters, stores_clusters=self._stores_clusters)
        super().__init__(stream=FED_STREAM, jobs=jobs, ring_bytes=ring_bytes)
        self._assignments: dict[str, int] = {}
        """The current assignment of live jobs that had an earlier cluster; other ends are ignored."""

    def is_shown(self, fact: Fact) -> bool:
        """Return whether no cluster's log has the fact."""
        return fact.kind != "log" and fact.name not in _ADDRESSED and not fact.name.endswith("-forwarded")

    def fold(self, fact: Fact) -> None:
        """Update the row of the fact's job."""
        self._FOLDS.apply(self, fact)

    @_FOLDS.on("job", "submitted", jobs.JobSubmitted)
    def _submitted(self, fact: Fact, submitted: jobs.JobSubmitted) -> None:
        job = submitted.job
        if job.id in self._jobs:
            self._anomalies.count += 1
            return
        row = job_view(job, submitted_at=job.submitted_at or fact.time, seq=fact.seq)
        self._jobs.enter(LiveJob(row))

    @_FOLDS.on("job", "routed", jobs.JobRouted)
    def _routed(self, fact: Fact, routed: jobs.JobRouted) -> None:
        job = self._jobs.live(fact.subject_id)
        if job is None:
            self._anomalies.count += 1
            return
        job.row.cluster = routed.cluster
        job.listed = False  # from here on its phase is the cluster's to tell
        self._jobs.touch(job, fact)

    @_FOLDS.on("job", ("job-returned", "drop-forwarded"), (JobReturned, JobRecalled))
    def _left_its_cluster(self, fact: Fact, told: JobReturned | JobRecalled) -> None:
        """Remove the job's cluster until it is routed again; a fact about an earlier assignment is ignored."""
        job = self._jobs.live(fact.subject_id)
        if job is None:
            return
        if job.row.cluster and told.assignment >= self._assignments.get(fact.subject_id, 1):
            self._assignments[fact.subject_id] = told.assignment + 1
            job.row.cluster, job.listed = "", True
            self._jobs.touch(job, fact)

    @_FOLDS.on("job", "job-ended", jobs.JobEnded)
    def _left_for_good(self, fact: Fact, ended: jobs.JobEnded) -> None:
        if ended.assignment != self._assignments.get(fact.subject_id, ended.assignment):
            return  # of a cluster that had it before
        self._assignments.pop(fact.subject_id, None)
        job = self._jobs.live(fact.subject_id)
        if job is None:
            self._anomalies.count += 1
        elif self._stores_clusters:
            row = job.row
            row.phase, row.ended_at, row.reason, row.seq = ended.phase, ended.ended_at, ended.reason, fact.seq
            self._jobs.end(job)
        else:
            self._jobs.forget(fact.subject_id)

    @_FOLDS.on("job", "cancelled", jobs.JobFinished)
    def _cancelled(self, fact: Fact, finished: jobs.JobFinished) -> None:
        job = self._jobs.live(fact.subject_id)
        if job is None:
            self._anomalies.count += 1
            return
        self._assignments.pop(fact.subject_id, None)
        row, job.listed = job.row, True
        row.phase = Phase.CANCELLED
        row.ended_at = fact.time
        row.reason = finished.reason
        row.seq = fact.seq
        self._jobs.end(job)

    @_FOLDS.on("job", STATE_NAME, jobs.RoutedState)
    def _state(self, fact: Fact, state: jobs.RoutedState) -> None:
        if state.phase.is_terminal and state.cluster and not self._stores_clusters:
            return
        row = job_view(state.job, cluster=state.cluster, seq=fact.seq)
        job = LiveJob(row, listed=not state.cluster)
        self._jobs.enter(job)
        if state.phase.is_terminal:
            row.phase, row.ended_at = state.phase, fact.time  # at the latest: a checkpoint does not say when
            self._jobs.end(job)
        elif state.assignment > 1 or (state.assignment and not state.cluster):
            self._assignments[state.job_id] = state.assignment + (not state.cluster)
