"""Fold facts about jobs into their pods."""

from muster.agent.core.attempts import Attempts
from muster.agent.core.cluster import CheckpointSeen, Cluster, PodsExitedSeen, PodsStartedSeen
from muster.agent.core.leases import Leases
from muster.agent.core.state import Attempt, JobRecord
from muster.core import Fact
from muster.core.folding import Folds
from muster.schemas.facts.job import (
    JobCheckpointed,
    JobFinished,
    JobPlaced,
    JobResizeRequested,
    JobRouted,
    JobRunning,
    JobState,
    JobStopRequested,
    PodsExited,
    PodsResized,
    PodsStarted,
    PodsState,
    StopReason,
)
from muster.schemas.facts.operations import ChecksReported
from muster.schemas.registry import STATE_NAME


class JobFacts:
    """Folds facts about jobs; `leases` limits jobs of other owners. Handlers return whether a fact fits."""

    FOLDS = Folds["JobFacts", bool]()

    def __init__(self, cluster: Cluster, pods: Attempts, leases: Leases) -> None:
        self._cluster = cluster
        self._pods = pods
        self._leases = leases

    @FOLDS.on("job", "routed", JobRouted)
    def _routed(self, fact: Fact, routed: JobRouted) -> bool:
        if fact.subject_id in self._pods.jobs:
            return False
        job = routed.job
        self._pods.jobs[fact.subject_id] = JobRecord(
            spec=job.spec, trace=job.trace, origin=job.origin, lost_after_s=routed.lost_after_s
        )
        return True

    @FOLDS.on("job", "placed", JobPlaced)
    def _placed(self, fact: Fact, placed: JobPlaced) -> bool:
        job = self._pods.jobs.get(fact.subject_id)
        if job is None or job.spec is None:
            return False
        if job.pods is not None or placed.attempt <= job.attempt:
            return False
        job.attempt = placed.attempt
        pods = Attempt(
            attempt=placed.attempt,
            job_id=fact.subject_id,
            placed_at=fact.time,
            last_fact=fact.id,
            resumed_s=job.kept_s,
            slots=placed.slots,
            preflight=placed.preflight,
            trace=fact.trace or job.trace,
        )
        self._pods.create(job, pods)
        self._pods.end_if_gone(pods, fact)
        self._leases.placed(job, pods, fact)
        return True

    @FOLDS.on("job", "stop-requested", JobStopRequested)
    def _stop_requested(self, fact: Fact, stop: JobStopRequested) -> bool:
        job = self._pods.jobs.get(fact.subject_id)
        if job is None or stop.attempt != job.attempt:
            return False
        if job.pods is not None:  # otherwise it crossed the exit, which is enough
            evict = stop.reason is StopReason.PREEMPTED
            self._pods.end(job.pods, at=fact.time, cause=fact.id, grace_s=stop.grace_s, evict=evict)
        return True

    @FOLDS.on("job", "resize-requested", JobResizeRequested)
    def _resize_requested(self, fact: Fact, wanted: JobResizeRequested) -> bool:
        job = self._pods.jobs.get(fact.subject_id)
        if job is None or wanted.attempt != job.attempt:
            return False
        pods = job.pods
        if pods is None or pods.ending_at:
            return True  # it crossed the exit or the stop
        self._pods.resize(pods, wanted, at=fact.time, by=fact.id)
        self._pods.end_if_gone(pods, fact)
        return True

    @FOLDS.on("job", "pods-started", PodsStarted)
    def _started(self, fact: Fact, started: PodsStarted) -> bool:
        pods = self._pods.of(fact.subject_id)
        if pods is None or pods.attempt != started.attempt or pods.started_at:
            return False
        pods.started_at = fact.time
        if not pods.ending_at:
            pods.last_fact = fact.id
            self._pods.running[fact.subject_id] = pods
        self._cluster.acknowledge(PodsStartedSeen(fact.subject_id, started.attempt, started.device_uuids), at=fact.time)
        return True

    @FOLDS.on("job", "checks-reported", ChecksReported)
    def _checks_reported(self, fact: Fact, found: ChecksReported) -> bool:
        pods = self._pods.of(fact.subject_id)
        if pods is None or pods.attempt != found.attempt:
            return False
        self._pods.checked(pods, found, at=fact.time)
        return True

    @FOLDS.on("job", "running", JobRunning)
    def _running(self, fact: Fact, running: JobRunning) -> bool:
        pods = self._pods.of(fact.subject_id)
        if pods is not None and pods.attempt == running.attempt:  # otherwise it crossed the exit
            self._pods.open(pods, at=fact.time)
        return True

    @FOLDS.on("job", "checkpointed", JobCheckpointed)
    def _checkpointed(self, fact: Fact, seen: JobCheckpointed) -> bool:
        pods = self._pods.of(fact.subject_id)
        if pods is None or pods.attempt != seen.attempt or not pods.started_at:
            return False
        pods.checkpointed_at = fact.time
        self._cluster.acknowledge(CheckpointSeen(fact.subject_id, seen.attempt), at=fact.time)
        return True

    @FOLDS.on("job", "pods-resized", PodsResized)
    def _resized(self, fact: Fact, seen: PodsResized) -> bool:
        pods = self._pods.of(fact.subject_id)
        if pods is None or pods.attempt != seen.attempt:
            return False
        return self._pods.resized(pods, at=fact.time)

    @FOLDS.on("job", "pods-exited", PodsExited)
    def _exited(self, fact: Fact, gone: PodsExited) -> bool:
        job = self._pods.jobs.get(fact.subject_id)
        if job is None or job.pods is None or job.pods.attempt != gone.attempt:
            return False
        if job.spec is not None:
            job.kept_s = job.pods.kept_s(job.spec, ran_s=gone.ran_s)
        self._pods.free(job.pods)
        job.pods = None
        if job.is_over:
            del self._pods.jobs[fact.subject_id]
        self._cluster.acknowledge(PodsExitedSeen(fact.subject_id, gone), at=fact.time)
        return True

    @FOLDS.on("job", ("succeeded", "failed", "cancelled", "timed-out"), JobFinished)
    def _ended(self, fact: Fact, _: JobFinished) -> bool:
        job = self._pods.jobs.get(fact.subject_id)
        if job is None:
            return False
        if job.pods is None:
            del self._pods.jobs[fact.subject_id]
            return True
        job.is_over = True
        self._pods.end(job.pods, at=fact.time, cause=fact.id)
        return False

    @FOLDS.on("job", STATE_NAME, JobState)
    def _job_state(self, fact: Fact, state: JobState) -> bool:
        if not state.phase.is_terminal:
            job = self._pods.jobs.setdefault(fact.subject_id, JobRecord())
            job.spec, job.trace, job.recorded_slots = state.job.spec, state.job.trace, state.slots
            job.origin, job.lost_after_s = state.job.origin, state.lost_after_s
            self._restore(job)
        return True

    @FOLDS.on("job", STATE_NAME, PodsState)
    def _pods_state(self, fact: Fact, state: PodsState) -> bool:
        job = self._pods.jobs.setdefault(fact.subject_id, JobRecord())
        job.attempt, job.recorded_pods = state.attempt, None if state.exited else state
        job.kept_s = state.resumed_s
        self._restore(job)
        return True

    def _restore(self, job: JobRecord) -> None:
        """Restore the pods of a job once both parts of its state are there, in either order."""
        if job.spec is not None and job.recorded_pods is not None:
            self._pods.restore(job, job.recorded_pods)
