"""The agent's fold: placements and stops become effects, observations of the cluster become facts.

An attempt's pods exist from `placed` to `pods-exited` in the log. Everything that it decides is an observation that the
log lacks, so a restarted agent continues where it was.
"""

from collections.abc import Callable, Iterator

from muster.agent.core.attempts import Attempts
from muster.agent.core.cluster import Cluster, ClusterSeen, WordSeen
from muster.agent.core.drafts import draft_of, state_drafts
from muster.agent.core.job_facts import JobFacts
from muster.agent.core.leases import Leases
from muster.agent.core.moves import Moves
from muster.agent.core.node_facts import NodeFacts
from muster.agent.core.node_work import NodeWork
from muster.agent.core.workload_values import WorkloadPolicy
from muster.agent.core.workloads.workloads import Workloads
from muster.core import Draft, Fact, Instant
from muster.core.folding import Folds
from muster.schemas.base import Payload
from muster.schemas.facts.control import ClusterDescribed, ClusterState
from muster.schemas.facts.scale import ScalerState
from muster.schemas.registry import STATE_NAME

AUTOSCALER_WORDS = ("node-wanted", "node-refused", "node-unneeded", "removal-blocked", "settled")
COMPOSABILITY_WORDS = ("compose-requested", "decompose-requested")


class AgentCore:
    """The agent's core over `cluster` and `workloads`, both new and empty; the fold fills them.

    `beside` is called with every fact after its fold. Telemetry, output and the cluster's sink read `cluster`, `jobs`,
    `nodes`, `slots` and `running`. `anomalies` counts facts that fit no state.
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
        self.slots = self._pods.slots
        self.running = self._pods.running
        self.anomalies = 0
        self._cluster = self.cluster = cluster
        self._described: ClusterSeen | None = None
        self._job_facts = JobFacts(cluster, self._pods, self._leases)
        self._node_facts = NodeFacts(cluster, self._pods, self._moves)

    _FOLDS = Folds["AgentCore", bool]()
    _FOLDS.include(Moves.FOLDS, lambda self: self._moves)
    _FOLDS.include(Leases.FOLDS, lambda self: self._leases)
    _FOLDS.include(NodeWork.FOLDS, lambda self: self._work)
    _FOLDS.include(JobFacts.FOLDS, lambda self: self._job_facts)
    _FOLDS.include(NodeFacts.FOLDS, lambda self: self._node_facts)

    def apply(self, fact: Fact) -> None:
        """Fold a fact."""
        if self._FOLDS.apply(self, fact) is False:
            self.anomalies += 1
        if not self.workloads.apply(fact):
            self.anomalies += 1
        self._beside(fact)

    def decide(self, now: Instant) -> list[Draft]:
        """Return drafts, bounded by the cluster's OBSERVATIONS_MAX and the workloads' DRAFTS_MAX."""
        scales, work, seen = self._moves.scales, self._work.open, self._cluster.observe(now)
        drafts = [draft_of(one, jobs=self.jobs, nodes=self.nodes, scales=scales, work=work) for one in seen]
        return self._leases.decide(now) + drafts + self.workloads.decide(now)

    def end_unheard(self, now: Instant) -> int:
        """End jobs out of contact, for the sink of the cluster; see `Leases.end_unheard`."""
        return self._leases.end_unheard(now, self._cluster)

    def next_wakeup(self) -> Instant | None:
        """Return when to decide again."""
        moments = (self._cluster.next_change(), self._leases.next_change(), self.workloads.next_change())
        return min((moment for moment in moments if moment is not None), default=None)

    def snapshot(self) -> Iterator[Draft]:
        """Yield the state facts of a checkpoint. Slots, spec and trace of jobs are in the scheduler's part."""
        moves = self._moves
        if self._described is not None:
            yield Draft("cluster", self._described.cluster, STATE_NAME, self._described.description)
        yield from state_drafts(nodes=self.nodes, jobs=self.jobs, scales=moves.scales, removed=moves.removed)
        yield from self._work.snapshot()
        yield from self.workloads.snapshot()

    @_FOLDS.on("autoscaler", AUTOSCALER_WORDS, Payload)
    @_FOLDS.on("composability", COMPOSABILITY_WORDS, Payload)
    def _word(self, fact: Fact, payload: Payload) -> bool:
        self._cluster.acknowledge(WordSeen(fact.kind, fact.subject_id, fact.name, payload), at=fact.time)
        return True

    @_FOLDS.on("scaler", STATE_NAME, ScalerState)
    def _scaler_state(self, _fact: Fact, stored: ScalerState) -> bool:
        """Restore an autoscaler's signals, which are in the scaler's part of a checkpoint."""
        for one in stored.signals:
            self._cluster.acknowledge(WordSeen("autoscaler", one.subject, one.name, one.signal), at=Instant(one.at))
        return True

    @_FOLDS.on("cluster", STATE_NAME, ClusterState)
    def _cluster_state(self, fact: Fact, stored: ClusterState) -> bool:
        self._leases.restore(fact.subject_id, stored)
        return True

    @_FOLDS.on("cluster", ("described", STATE_NAME), ClusterDescribed)
    def _cluster_described(self, fact: Fact, described: ClusterDescribed) -> bool:
        self._described = ClusterSeen(fact.subject_id, described)
        self._cluster.acknowledge(self._described, at=fact.time)
        return True
