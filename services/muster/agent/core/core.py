"""The agent's fold: placements and stops become effects, what the cluster shows becomes facts.

It holds no opinion of its own: an attempt's pods exist from `placed` to `pods-exited` as the log has them. Everything
that it decides is an observation of the cluster that the log has not yet, so a killed agent goes on where it was.
"""

from collections.abc import Callable, Iterator, Mapping

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
from muster.schemas.facts.control import ClusterDescribed, ClusterState
from muster.schemas.facts.scale import ScalerState
from muster.schemas.registry import STATE_NAME

AUTOSCALER_WORDS = ("node-wanted", "node-refused", "node-unneeded", "removal-blocked", "settled")
COMPOSABILITY_WORDS = ("compose-requested", "decompose-requested")


class AgentCore:
    """Implements `Core`. cluster: a new, empty one; the fold fills it. workloads: the same, of objects that ask.

    beside: told every fact after it was folded. cluster, jobs, nodes, slots, running: for reading by what follows the
    fold (telemetry, output, the cluster's own shell). anomalies: facts that fit no state.
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
            **{("autoscaler", name): self._word for name in AUTOSCALER_WORDS},
            **{("composability", name): self._word for name in COMPOSABILITY_WORDS},
            ("scaler", STATE_NAME): self._scaler_state,
            ("cluster", "described"): self._cluster_described,
            ("cluster", STATE_NAME): self._cluster_described,
            **self._moves.table(),
            **self._leases.table(),
            **self._work.table(),
            **JobFacts(self._cluster, self._pods, self._leases).table(),
            **NodeFacts(self._cluster, self._pods, self._moves).table(),
        }

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
