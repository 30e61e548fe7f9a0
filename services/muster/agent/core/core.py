"""The agent's fold: placements and stops become effects, what the cluster shows becomes facts.

It holds no opinion of its own: an attempt's pods exist from `placed` to `pods-exited` as the log has them. Everything
that it decides is an observation of the cluster that the log has not yet, so a killed agent goes on where it was.
"""

from collections.abc import Callable, Iterator, Mapping

from muster.agent.core.attempts import Attempts
from muster.agent.core.cluster import (
    CheckpointSeen,
    Cluster,
    ClusterSeen,
    NodeClosedSeen,
    NodeLeftSeen,
    NodeLostSeen,
    NodeOpenSeen,
    NodeReturnedSeen,
    NodeSeen,
    PodsExitedSeen,
    PodsStartedSeen,
    RecallNode,
    WordSeen,
)
from muster.agent.core.drafts import CLOSED, draft_of, state_drafts
from muster.agent.core.leases import Leases
from muster.agent.core.moves import Moves
from muster.agent.core.node_work import NodeWork
from muster.agent.core.state import Attempt, JobRecord, NodeRecord
from muster.agent.core.workloads.policy import WorkloadPolicy
from muster.agent.core.workloads.workloads import Workloads
from muster.core import Draft, Fact, Instant
from muster.schemas.facts.control import ClusterDescribed, ClusterState
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
from muster.schemas.facts.node import (
    NodeJoined,
    NodeLeft,
    NodeLost,
    NodeState,
    Withheld,
    WithholdRequested,
    WithholdWithdrawn,
)
from muster.schemas.facts.operations import ChecksReported
from muster.schemas.facts.scale import ScalerState
from muster.schemas.job import TERMINAL_PHASES
from muster.schemas.registry import STATE_NAME

AUTOSCALER_WORDS = ("node-wanted", "node-refused", "node-unneeded", "removal-blocked", "settled")
COMPOSABILITY_WORDS = ("compose-requested", "decompose-requested")


class AgentCore:
    """Implements `Core`. cluster: a new, empty one; the fold fills it. workloads: the same, of objects that ask.

    beside: told every fact after it was folded. cluster, jobs, nodes: for reading by what follows the fold (telemetry,
    output, the cluster's own shell). anomalies: facts that fit no state.
    """

    def __init__(
        self,
        cluster: Cluster,
        workloads: Workloads | None = None,
        beside: Callable[[Fact], None] = lambda _: None,
    ) -> None:
        self._beside = beside
        self.workloads = workloads or Workloads(WorkloadPolicy(cluster=""))
        self._pods = Attempts(cluster)
        self._moves = Moves(self._pods, cluster)
        self._leases = Leases(self._pods)
        self._work = NodeWork(cluster)
        self.jobs = self._pods.jobs
        self.nodes = self._pods.nodes
        self.running = self._pods.running
        self.anomalies = 0
        self._cluster = self.cluster = cluster
        self._described: ClusterSeen | None = None
        self._handlers = self._table()

    def apply(self, fact: Fact) -> None:
        """See `Core`."""
        handler = self._handlers.get((fact.kind, fact.name))
        if handler is not None and not handler(fact):
            self.anomalies += 1
        if not self.workloads.apply(fact):
            self.anomalies += 1
        self._beside(fact)

    def decide(self, now: Instant) -> list[Draft]:
        """See `Core`. Bounded by the cluster's OBSERVATIONS_MAX and the workloads' DRAFTS_MAX."""
        scales, work, seen = self._moves.scales, self._work.open, self._cluster.observe(now)
        drafts = [draft_of(one, jobs=self.jobs, nodes=self.nodes, scales=scales, work=work) for one in seen]
        return self._leases.decide(now) + drafts + self.workloads.decide(now)

    def end_unheard(self, now: Instant) -> int:
        """For who works the cluster: see `Leases.end_unheard`."""
        return self._leases.end_unheard(now, self._cluster)

    def next_wakeup(self) -> Instant | None:
        """See `Core`."""
        moments = (self._cluster.next_change(), self._leases.next_change(), self.workloads.next_change())
        return min((moment for moment in moments if moment is not None), default=None)

    def snapshot(self) -> Iterator[Draft]:
        """See `Core`. Slots, spec and trace of a job stand in the scheduler's state of it, which comes beside."""
        moves = self._moves
        if self._described is not None:
            yield Draft("cluster", self._described.cluster, STATE_NAME, self._described.description)
        yield from state_drafts(nodes=self.nodes, jobs=self.jobs, scales=moves.scales, removed=moves.removed)
        yield from self._work.snapshot()
        yield from self.workloads.snapshot()

    def _table(self) -> Mapping[tuple[str, str], Callable[[Fact], bool]]:
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
            ("node", "joined"): self._joined,
            ("node", "lost"): self._lost,
            ("node", "returned"): self._returned,
            ("node", "left"): self._left,
            ("node", "state-recorded"): self._node_state,
            ("node", "withhold-requested"): self._closed,
            ("node", "withhold-withdrawn"): self._opened,
            **{("autoscaler", name): self._word for name in AUTOSCALER_WORDS},
            **{("composability", name): self._word for name in COMPOSABILITY_WORDS},
            ("scaler", STATE_NAME): self._scaler_state,
            ("cluster", "described"): self._cluster_described,
            ("cluster", "state-recorded"): self._cluster_described,
            **self._moves.table(),
            **self._leases.table(),
            **self._work.table(),
            ("node", "withheld"): self._withheld,
        }

    def _routed(self, fact: Fact) -> bool:
        if not isinstance(fact.payload, JobRouted) or fact.subject_id in self.jobs:
            return False
        routed, job = fact.payload, fact.payload.job
        self.jobs[fact.subject_id] = JobRecord(
            spec=job.spec, trace=job.trace, origin=job.origin, lost_after_s=routed.lost_after_s
        )
        return True

    def _placed(self, fact: Fact) -> bool:
        job = self.jobs.get(fact.subject_id)
        placed = fact.payload
        if not isinstance(placed, JobPlaced) or job is None or job.spec is None:
            return False
        if job.pods is not None or placed.attempt <= job.attempt:
            return False
        job.attempt = placed.attempt
        pods = Attempt(placed.attempt, placed.slots, fact.trace or job.trace, fact.time, fact.id)
        pods.resumed_s, pods.preflight = job.kept_s, placed.preflight
        self._pods.create(fact.subject_id, job, pods)
        self._pods.end_if_gone(fact.subject_id, pods, fact)
        self._leases.placed(fact.subject_id, job, pods, fact)
        return True

    def _stop_requested(self, fact: Fact) -> bool:
        job = self.jobs.get(fact.subject_id)
        if not isinstance(fact.payload, JobStopRequested) or job is None or fact.payload.attempt != job.attempt:
            return False
        if job.pods is not None:  # else it passed the exit, which says all there is to say
            evict = fact.payload.reason is StopReason.PREEMPTED
            self._pods.end(
                fact.subject_id, job.pods, at=fact.time, cause=fact.id, grace_s=fact.payload.grace_s, evict=evict
            )
        return True

    def _resize_requested(self, fact: Fact) -> bool:
        job = self.jobs.get(fact.subject_id)
        wanted = fact.payload
        if not isinstance(wanted, JobResizeRequested) or job is None or wanted.attempt != job.attempt:
            return False
        pods = job.pods
        if pods is None or pods.ending_at:
            return True  # it passed the exit, or the stop
        self._pods.resize(fact.subject_id, pods, wanted, at=fact.time, by=fact.id)
        self._pods.end_if_gone(fact.subject_id, pods, fact)
        return True

    def _started(self, fact: Fact) -> bool:
        started = fact.payload
        pods = self._pods.of(fact.subject_id)
        if not isinstance(started, PodsStarted) or pods is None or pods.number != started.attempt or pods.started_at:
            return False
        pods.started_at = fact.time
        if not pods.ending_at:
            pods.last_fact = fact.id
            self.running[fact.subject_id] = pods
        self._cluster.acknowledge(PodsStartedSeen(fact.subject_id, started.attempt, started.device_uuids), at=fact.time)
        return True

    def _checks_reported(self, fact: Fact) -> bool:
        found = fact.payload
        pods = self._pods.of(fact.subject_id)
        if not isinstance(found, ChecksReported) or pods is None or pods.number != found.attempt:
            return False
        self._pods.checked(fact.subject_id, pods, found, at=fact.time)
        return True

    def _running(self, fact: Fact) -> bool:
        running = fact.payload
        pods = self._pods.of(fact.subject_id)
        if not isinstance(running, JobRunning):
            return False
        if pods is not None and pods.number == running.attempt:  # else it passed the exit
            self._pods.open(fact.subject_id, pods, at=fact.time)
        return True

    def _checkpointed(self, fact: Fact) -> bool:
        seen = fact.payload
        pods = self._pods.of(fact.subject_id)
        if not isinstance(seen, JobCheckpointed) or pods is None or pods.number != seen.attempt or not pods.started_at:
            return False
        pods.checkpointed_at = fact.time
        self._cluster.acknowledge(CheckpointSeen(fact.subject_id, seen.attempt), at=fact.time)
        return True

    def _resized(self, fact: Fact) -> bool:
        seen = fact.payload
        pods = self._pods.of(fact.subject_id)
        if not isinstance(seen, PodsResized) or pods is None or pods.number != seen.attempt:
            return False
        return self._pods.resized(fact.subject_id, pods, fact.time)

    def _exited(self, fact: Fact) -> bool:
        job = self.jobs.get(fact.subject_id)
        gone = fact.payload
        if not isinstance(gone, PodsExited) or job is None or job.pods is None or job.pods.number != gone.attempt:
            return False
        if job.spec is not None:
            job.kept_s = job.pods.kept_s(job.spec, ran_s=gone.ran_s)
        self._pods.free(fact.subject_id, job.pods)
        job.pods = None
        if job.is_over:
            del self.jobs[fact.subject_id]
        seen = PodsExitedSeen(
            fact.subject_id, gone.attempt, gone.outcome, gone.exit_code, gone.ran_s, gone.node, gone.reason
        )
        self._cluster.acknowledge(seen, at=fact.time)
        return True

    def _ended(self, fact: Fact) -> bool:
        job = self.jobs.get(fact.subject_id)
        if job is None:
            return False
        if job.pods is None:
            del self.jobs[fact.subject_id]
            return True
        job.is_over = True
        self._pods.end(fact.subject_id, job.pods, at=fact.time, cause=fact.id)
        return False

    def _joined(self, fact: Fact) -> bool:
        if not isinstance(fact.payload, NodeJoined):
            return False
        node = self.nodes.setdefault(fact.subject_id, NodeRecord())
        node.describe(fact.payload)
        node.moved(at=fact.time, by=fact.id)
        self._moves.joined(fact.subject_id)
        self._cluster.acknowledge(NodeSeen(fact.subject_id, fact.payload), at=fact.time)
        return True

    def _lost(self, fact: Fact) -> bool:
        node = self.nodes.get(fact.subject_id)
        if not isinstance(fact.payload, NodeLost) or node is None or node.is_gone:
            return False
        node.lost, node.lost_reason = True, fact.payload.reason
        node.losses += 1
        node.moved(at=fact.time, by=fact.id)
        self._pods.end_all_on(fact.subject_id, node, at=fact.time, cause=fact.id)
        self._cluster.acknowledge(NodeLostSeen(fact.subject_id), at=fact.time)
        return True

    def _returned(self, fact: Fact) -> bool:
        node = self.nodes.get(fact.subject_id)
        if node is None or not node.lost:
            return False
        node.lost, node.lost_reason = False, ""
        node.moved(at=fact.time, by=fact.id)
        self._cluster.acknowledge(NodeReturnedSeen(fact.subject_id), at=fact.time)
        return True

    def _left(self, fact: Fact) -> bool:
        node = self.nodes.get(fact.subject_id)
        if not isinstance(fact.payload, NodeLeft) or node is None:
            return False
        self._pods.end_all_on(fact.subject_id, node, at=fact.time, cause=fact.id)
        self._moves.left(fact.subject_id, node)
        del self.nodes[fact.subject_id]
        self._cluster.acknowledge(NodeLeftSeen(fact.subject_id), at=fact.time)
        return True

    def _node_state(self, fact: Fact) -> bool:
        state = fact.payload
        if not isinstance(state, NodeState):
            return fact.writer != "agent"  # the scheduler's part of a node says who may use it: not ours
        node = self.nodes.setdefault(fact.subject_id, NodeRecord())
        node.restore(state)
        self._cluster.carry_out(RecallNode(fact.subject_id, node.actual))
        self._cluster.acknowledge(NodeSeen(fact.subject_id, state.description), at=node.changed_at)
        if state.lost:
            self._cluster.acknowledge(NodeLostSeen(fact.subject_id), at=node.changed_at)
        if state.closed:
            self._cluster.acknowledge(NodeClosedSeen(fact.subject_id, state.closed), at=node.changed_at)
        self._moves.restored(fact.subject_id, node)
        return True

    def _closed(self, fact: Fact) -> bool:
        """Our own wish that nothing new is placed there; other services have theirs."""
        wish, node = fact.payload, self.nodes.get(fact.subject_id)
        if fact.writer != "agent" or not isinstance(wish, WithholdRequested):
            return isinstance(wish, WithholdRequested)
        if node is None:
            return False
        node.closed, node.is_withheld = wish.reason or CLOSED, False
        self._cluster.acknowledge(NodeClosedSeen(fact.subject_id, wish.reason), at=fact.time)
        return True

    def _withheld(self, fact: Fact) -> bool:
        answer, node = fact.payload, self.nodes.get(fact.subject_id)
        if isinstance(answer, Withheld) and node is not None and node.closed and answer.request_id == CLOSED:
            node.is_withheld = True
        return self._moves.withheld(fact)

    def _opened(self, fact: Fact) -> bool:
        """A withdrawal that passed the answer is no withdrawal: it is said again, with `after_withheld`."""
        wish, node = fact.payload, self.nodes.get(fact.subject_id)
        if fact.writer != "agent" or not isinstance(wish, WithholdWithdrawn):
            return isinstance(wish, WithholdWithdrawn)
        if node is None or (node.is_withheld and not wish.after_withheld):
            return False
        node.closed, node.is_withheld = "", False
        self._cluster.acknowledge(NodeOpenSeen(fact.subject_id), at=fact.time)
        return True

    def _word(self, fact: Fact) -> bool:
        self._cluster.acknowledge(WordSeen(fact.kind, fact.subject_id, fact.name, fact.payload), at=fact.time)
        return True

    def _scaler_state(self, fact: Fact) -> bool:
        """What an autoscaler said stands in the scaler's part of a checkpoint."""
        if not isinstance(fact.payload, ScalerState):
            return False
        for one in fact.payload.signals:
            self._cluster.acknowledge(WordSeen("autoscaler", one.subject, one.name, one.signal), at=Instant(one.at))
        return True

    def _cluster_described(self, fact: Fact) -> bool:
        if isinstance(fact.payload, ClusterState):  # the scheduler's part of a checkpoint
            self._leases.restore(fact.subject_id, fact.payload)
            return True
        if not isinstance(fact.payload, ClusterDescribed):
            return False
        self._described = ClusterSeen(fact.subject_id, fact.payload)
        self._cluster.acknowledge(self._described, at=fact.time)
        return True

    def _job_state(self, fact: Fact) -> bool:
        """A job's state comes in two parts, in either order; its pods are made when both are there."""
        match fact.payload:
            case JobState() as state if not state.phase.is_terminal:
                job = self.jobs.setdefault(fact.subject_id, JobRecord())
                job.spec, job.trace, job.recorded_slots = state.job.spec, state.job.trace, state.slots
                job.origin, job.lost_after_s = state.job.origin, state.lost_after_s
            case PodsState() as state:
                job = self.jobs.setdefault(fact.subject_id, JobRecord())
                job.attempt, job.recorded_pods = state.attempt, None if state.exited else state
                job.kept_s = state.resumed_s
            case payload:
                return isinstance(payload, JobState)
        if job.spec is not None and job.recorded_pods is not None:
            self._pods.restore(fact.subject_id, job, job.recorded_pods)
        return True
