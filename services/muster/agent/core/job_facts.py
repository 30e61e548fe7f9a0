"""What facts about jobs mean for their pods: the agent's fold of them."""

from collections.abc import Callable, Mapping

from muster.agent.core.attempts import Attempts
from muster.agent.core.cluster import CheckpointSeen, Cluster, PodsExitedSeen, PodsStartedSeen
from muster.agent.core.leases import Leases
from muster.agent.core.state import Attempt, JobRecord
from muster.core import Fact
from muster.schemas.facts.job import (
    JobCheckpointed,
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
from muster.schemas.job import TERMINAL_PHASES


class JobFacts:
    """pods: what it keeps; leases: how long jobs of other owners may run unheard. Handlers say whether a fact fits."""

    def __init__(self, cluster: Cluster, pods: Attempts, leases: Leases) -> None:
        self._cluster = cluster
        self._pods = pods
        self._leases = leases

    def table(self) -> Mapping[tuple[str, str], Callable[[Fact], bool]]:
        """Which fact goes where."""
        return {
            ("job", "routed"): self._routed,
            ("job", "placed"): self._placed,
            ("job", "stop-requested"): self._stop_requested,
            ("job", "pods-started"): self._started,
            ("job", "pods-exited"): self._exited,
            ("job", "checks-reported"): self._checks_reported,
            ("job", "running"): self._running,
            ("job", "checkpointed"): self._checkpointed,
            ("job", "resize-requested"): self._resize_requested,
            ("job", "pods-resized"): self._resized,
            **{("job", phase.value): self._ended for phase in TERMINAL_PHASES},
            ("job", "state-recorded"): self._job_state,
        }

    def _routed(self, fact: Fact) -> bool:
        if not isinstance(fact.payload, JobRouted) or fact.subject_id in self._pods.jobs:
            return False
        routed, job = fact.payload, fact.payload.job
        self._pods.jobs[fact.subject_id] = JobRecord(
            spec=job.spec, trace=job.trace, origin=job.origin, lost_after_s=routed.lost_after_s
        )
        return True

    def _placed(self, fact: Fact) -> bool:
        job = self._pods.jobs.get(fact.subject_id)
        placed = fact.payload
        if not isinstance(placed, JobPlaced) or job is None or job.spec is None:
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

    def _stop_requested(self, fact: Fact) -> bool:
        job = self._pods.jobs.get(fact.subject_id)
        if not isinstance(fact.payload, JobStopRequested) or job is None or fact.payload.attempt != job.attempt:
            return False
        if job.pods is not None:  # else it passed the exit, which says all there is to say
            evict = fact.payload.reason is StopReason.PREEMPTED
            self._pods.end(job.pods, at=fact.time, cause=fact.id, grace_s=fact.payload.grace_s, evict=evict)
        return True

    def _resize_requested(self, fact: Fact) -> bool:
        job = self._pods.jobs.get(fact.subject_id)
        wanted = fact.payload
        if not isinstance(wanted, JobResizeRequested) or job is None or wanted.attempt != job.attempt:
            return False
        pods = job.pods
        if pods is None or pods.ending_at:
            return True  # it passed the exit, or the stop
        self._pods.resize(pods, wanted, at=fact.time, by=fact.id)
        self._pods.end_if_gone(pods, fact)
        return True

    def _started(self, fact: Fact) -> bool:
        started = fact.payload
        pods = self._pods.of(fact.subject_id)
        if not isinstance(started, PodsStarted) or pods is None or pods.attempt != started.attempt or pods.started_at:
            return False
        pods.started_at = fact.time
        if not pods.ending_at:
            pods.last_fact = fact.id
            self._pods.running[fact.subject_id] = pods
        self._cluster.acknowledge(PodsStartedSeen(fact.subject_id, started.attempt, started.device_uuids), at=fact.time)
        return True

    def _checks_reported(self, fact: Fact) -> bool:
        found = fact.payload
        pods = self._pods.of(fact.subject_id)
        if not isinstance(found, ChecksReported) or pods is None or pods.attempt != found.attempt:
            return False
        self._pods.checked(pods, found, at=fact.time)
        return True

    def _running(self, fact: Fact) -> bool:
        running = fact.payload
        pods = self._pods.of(fact.subject_id)
        if not isinstance(running, JobRunning):
            return False
        if pods is not None and pods.attempt == running.attempt:  # else it passed the exit
            self._pods.open(pods, at=fact.time)
        return True

    def _checkpointed(self, fact: Fact) -> bool:
        seen = fact.payload
        pods = self._pods.of(fact.subject_id)
        if not isinstance(seen, JobCheckpointed) or pods is None or pods.attempt != seen.attempt or not pods.started_at:
            return False
        pods.checkpointed_at = fact.time
        self._cluster.acknowledge(CheckpointSeen(fact.subject_id, seen.attempt), at=fact.time)
        return True

    def _resized(self, fact: Fact) -> bool:
        seen = fact.payload
        pods = self._pods.of(fact.subject_id)
        if not isinstance(seen, PodsResized) or pods is None or pods.attempt != seen.attempt:
            return False
        return self._pods.resized(pods, at=fact.time)

    def _exited(self, fact: Fact) -> bool:
        job = self._pods.jobs.get(fact.subject_id)
        gone = fact.payload
        if not isinstance(gone, PodsExited) or job is None or job.pods is None or job.pods.attempt != gone.attempt:
            return False
        if job.spec is not None:
            job.kept_s = job.pods.kept_s(job.spec, ran_s=gone.ran_s)
        self._pods.free(job.pods)
        job.pods = None
        if job.is_over:
            del self._pods.jobs[fact.subject_id]
        self._cluster.acknowledge(PodsExitedSeen(fact.subject_id, gone), at=fact.time)
        return True

    def _ended(self, fact: Fact) -> bool:
        job = self._pods.jobs.get(fact.subject_id)
        if job is None:
            return False
        if job.pods is None:
            del self._pods.jobs[fact.subject_id]
            return True
        job.is_over = True
        self._pods.end(job.pods, at=fact.time, cause=fact.id)
        return False

    def _job_state(self, fact: Fact) -> bool:
        """A job's state comes in two parts, in either order; its pods are made when both are there."""
        match fact.payload:
            case JobState() as state if not state.phase.is_terminal:
                job = self._pods.jobs.setdefault(fact.subject_id, JobRecord())
                job.spec, job.trace, job.recorded_slots = state.job.spec, state.job.trace, state.slots
                job.origin, job.lost_after_s = state.job.origin, state.lost_after_s
            case PodsState() as state:
                job = self._pods.jobs.setdefault(fact.subject_id, JobRecord())
                job.attempt, job.recorded_pods = state.attempt, None if state.exited else state
                job.kept_s = state.resumed_s
            case payload:
                return isinstance(payload, JobState)
        if job.spec is not None and job.recorded_pods is not None:
            self._pods.restore(job, job.recorded_pods)
        return True
