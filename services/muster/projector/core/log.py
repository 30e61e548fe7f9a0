"""A cluster's log folded into rows of jobs, nodes and queues."""

from collections.abc import Callable
from typing import cast

from muster.core.fact import Fact
from muster.projector.core.fleet import FleetRows
from muster.projector.core.projection import ENDED_KEPT, LiveJob, Projection
from muster.projector.core.queues import Queues
from muster.projector.core.ring import RING_BYTES_MAX
from muster.projector.core.rows import Changes, job_row
from muster.schemas.facts import job as jobs
from muster.schemas.facts import node as nodes
from muster.schemas.facts import queue as queues
from muster.schemas.job import Job, Phase, Slot
from muster.schemas.registry import STATE_NAME
from muster.schemas.subjects import cluster_log

LOST = "lost"
"""Shown as the reason where a loss gives none."""

_TERMINAL = {phase.value: phase for phase in Phase if phase.is_terminal}


class ProjectorCore(Projection):
    """Every fact of one cluster's log. Work per fact grows with the slots it names, never with the fleet."""

    def __init__(self, cluster: str, *, ended_kept: int = ENDED_KEPT, ring_bytes: int = RING_BYTES_MAX) -> None:
        super().__init__(stream=cluster_log(cluster).stream, ended_kept=ended_kept, ring_bytes=ring_bytes)
        self.cluster = cluster
        self._fleet = FleetRows()
        self._queues = Queues()
        self._folds: dict[tuple[str, str], Callable[[Fact], None]] = {
            ("job", "routed"): self._routed,
            ("job", "queued"): self._queued,
            ("job", "placed"): self._placed,
            ("job", "running"): self._running,
            ("job", "unschedulable"): self._unschedulable,
            ("job", "stop-requested"): self._stopping,
            **{("job", name): self._ended_as for name in _TERMINAL},
            ("node", "joined"): self._joined,
            ("node", "left"): self._left,
            ("node", "lost"): self._lost,
            ("node", "returned"): self._returned,
            ("node", "released"): self._released,
            ("node", "withheld"): self._withheld,
            ("queue", "changed"): self._queue_changed,
            ("job", STATE_NAME): self._job_state,
            ("node", STATE_NAME): self._node_state,
            ("queue", STATE_NAME): self._queue_state,
        }

    def fold(self, fact: Fact) -> None:
        """Change the rows that the fact is about; facts that change none are passed by."""
        fold = self._folds.get((fact.kind, fact.name))
        if fold is not None:
            fold(fact)

    def take(self, *, facts_after: int) -> Changes:
        """What changed, with nodes and queues."""
        changes = super().take(facts_after=facts_after)
        changes.shapes = self._fleet.take(changes.nodes)
        self._queues.take(changes.queues)
        return changes

    def take_all(self, *, rows_after: int) -> Changes:
        """Every row; nodes and queues always whole, since they are few."""
        self._fleet.touch_all()
        self._queues.touch_all()
        return super().take_all(rows_after=rows_after)

    def _job(self, fact: Fact) -> LiveJob | None:
        job = self._live.get(fact.subject_id)
        if job is None:
            self.anomalies += 1
            return None
        self._touch(job, fact)
        return job

    def _move(self, job: LiveJob, phase: Phase) -> None:
        row = job.row
        after = None if phase.is_terminal else phase
        self._queues.move(row.queue, before=row.phase, after=after, gpu_milli=row.gpu_milli)
        row.phase = phase

    def _hold(self, job: LiveJob, slots: tuple[Slot, ...]) -> None:
        row = job.row
        row.slots = slots
        row.nodes = tuple(dict.fromkeys(slot.node for slot in slots))
        self._fleet.hold(row.id, slots, needs=job.needs, sign=1)

    def _give_back(self, job: LiveJob) -> None:
        self._fleet.hold(job.row.id, job.row.slots, needs=job.needs, sign=-1)

    def _admit(self, job: Job, fact: Fact, *, submitted_at: int) -> LiveJob:
        row = job_row(job, cluster=self.cluster, submitted_at=submitted_at, seq=fact.seq)
        needs = tuple((group.cpu_milli, group.memory_mib) for group in job.spec.task_groups)
        live = self._live[job.id] = LiveJob(row, needs=needs)
        self._dirty[job.id] = None
        return live

    def _routed(self, fact: Fact) -> None:
        job = cast("jobs.JobRouted", fact.payload).job
        if job.id in self._live or job.id in self._ended:
            self.anomalies += 1
            return
        self._admit(job, fact, submitted_at=job.submitted_at or fact.time)

    def _queued(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is None:
            return
        payload = cast("jobs.JobQueued", fact.payload)
        row = job.row
        self._give_back(job)
        if row.queue != payload.queue:
            self._queues.move(row.queue, before=row.phase, after=None, gpu_milli=row.gpu_milli)
            row.queue = payload.queue
            row.phase = Phase.SUBMITTED
        self._move(job, Phase.QUEUED)
        row.slots = row.nodes = ()
        row.attempt = payload.attempt
        row.queued_at = fact.time
        row.placed_at = row.running_at = 0
        row.reason = payload.reason.value
        row.detail = payload.detail

    def _placed(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is None:
            return
        payload = cast("jobs.JobPlaced", fact.payload)
        self._give_back(job)
        self._hold(job, payload.slots)
        self._move(job, Phase.PLACED)
        row = job.row
        row.attempt = payload.attempt
        row.placed_at = fact.time
        row.reason = row.detail = ""

    def _running(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is None:
            return
        payload = cast("jobs.JobRunning", fact.payload)
        self._move(job, Phase.RUNNING)
        job.row.running_at = fact.time
        job.row.preflight = payload.preflight

    def _unschedulable(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is not None:
            payload = cast("jobs.JobUnschedulable", fact.payload)
            job.row.reason = payload.reason
            job.row.detail = payload.detail

    def _stopping(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is not None:
            self._move(job, Phase.STOPPING)
            job.row.reason = cast("jobs.JobStopRequested", fact.payload).reason.value

    def _ended_as(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is None:
            return
        payload = cast("jobs.JobFinished", fact.payload)
        self._give_back(job)
        self._move(job, _TERMINAL[fact.name])
        row = job.row
        row.ended_at = fact.time
        row.exit_code = payload.exit_code
        row.reason = payload.reason
        row.detail = ""
        self._end(job)

    def _joined(self, fact: Fact) -> None:
        described = cast("nodes.NodeJoined", fact.payload)
        self._fleet.join(fact.subject_id, described, cluster=self.cluster)

    def _left(self, fact: Fact) -> None:
        self._fleet.leave(fact.subject_id)

    def _lost(self, fact: Fact) -> None:
        reason = cast("nodes.NodeLost", fact.payload).reason or LOST
        self._answers(fact.subject_id, lost=True, reason=reason)

    def _returned(self, fact: Fact) -> None:
        self._answers(fact.subject_id, lost=False, reason="")

    def _answers(self, node: str, *, lost: bool, reason: str) -> None:
        if node in self._fleet:
            self._fleet.answers(node, lost=lost, reason=reason)
        else:
            self.anomalies += 1

    def _released(self, fact: Fact) -> None:
        self._fleet.grant(fact.subject_id, granted=True)

    def _withheld(self, fact: Fact) -> None:
        request = cast("nodes.Withheld", fact.payload).request_id
        self._fleet.grant(fact.subject_id, granted=False, reason=f"withheld for {request}")

    def _queue_changed(self, fact: Fact) -> None:
        self._queues.declare(cast("queues.QueueChanged", fact.payload).spec, cluster=self.cluster)

    def _job_state(self, fact: Fact) -> None:
        if not isinstance(fact.payload, jobs.JobState):
            return  # the agent's state of the pods
        state = fact.payload
        job = self._admit(state.job, fact, submitted_at=state.job.submitted_at or state.queued_at)
        row = job.row
        row.queue = state.queue or row.queue
        row.attempt = 0 if state.phase is Phase.SUBMITTED else state.attempt
        row.queued_at = state.queued_at
        row.placed_at = state.placed_at
        row.running_at = state.running_at
        row.ended_at = state.ended_at
        row.reason, row.detail = _explanation(state)
        row.preflight = state.preflight
        if state.phase.is_terminal:
            row.exit_code = state.exit_code
            row.slots = state.slots
            row.nodes = tuple(dict.fromkeys(slot.node for slot in state.slots))
            row.phase = state.phase
            self._end(job)
        else:
            self._hold(job, state.slots)
            self._move(job, state.phase)

    def _node_state(self, fact: Fact) -> None:
        match fact.payload:
            case nodes.NodeState() as state:
                self._fleet.join(fact.subject_id, state.description, cluster=self.cluster)
                self._fleet.answers(fact.subject_id, lost=state.lost, reason=_lost_reason(state))
            case nodes.GrantState() as grant:
                usable = grant.released and not grant.withheld
                reason = f"withheld for {', '.join(grant.withhold_requests)}" if grant.withheld else ""
                self._fleet.grant(fact.subject_id, granted=usable, reason=reason)
            case _:
                self.anomalies += 1

    def _queue_state(self, fact: Fact) -> None:
        self._queues.declare(cast("queues.QueueState", fact.payload).spec, cluster=self.cluster)


def _explanation(state: jobs.JobState) -> tuple[str, str]:
    """Reason and detail as the job's newest fact left them in its row."""
    if state.phase is Phase.STOPPING and state.stop_reason is not None:
        return state.stop_reason.value, state.detail
    if state.phase is Phase.QUEUED and not state.reason and state.queued_reason is not None:
        return state.queued_reason.value, state.queued_detail
    return state.reason, state.detail


def _lost_reason(state: nodes.NodeState) -> str:
    return (state.lost_reason or LOST) if state.lost else ""
