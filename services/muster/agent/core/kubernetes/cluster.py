"""A Kubernetes cluster behind the agent's port, without I/O: effects and views in, calls and observations out.

The sink feeds its watches (`pod_seen`, `node_seen`, ...), calls `synced` when it has seen all, works the calls of
`take` and reports them to `finished`, and calls `settle` after each batch. All of it is state of one leader term:
`reset` forgets it; what the log says stays.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from muster.agent.core.cluster import (
    GRID_NS,
    OBSERVATIONS_MAX,
    ClusterSeen,
    Effect,
    NodeLeftSeen,
    NodeLostSeen,
    NodeObservation,
    Observation,
    PodsEffect,
    WordSeen,
    WorkOnNode,
    WorkSeen,
    on_grid,
)
from muster.agent.core.kubernetes.calls import Outcome
from muster.agent.core.kubernetes.context import Context, Notes
from muster.agent.core.kubernetes.describing import Devices, NodePolicy
from muster.agent.core.kubernetes.gangs import Gangs
from muster.agent.core.kubernetes.machines import Machines, NoMachines
from muster.agent.core.kubernetes.names import pod_name
from muster.agent.core.kubernetes.node_jobs import WorkPolicy
from muster.agent.core.kubernetes.node_work import NodeWorks
from muster.agent.core.kubernetes.nodes import Nodes
from muster.agent.core.kubernetes.ports import (
    AdoptedPods,
    AuxiliaryObjects,
    Manifests,
)
from muster.agent.core.kubernetes.terminator import Orphans
from muster.agent.core.kubernetes.views import NodeView, PodView
from muster.agent.core.kubernetes.worklist import AT_ONCE, Task, Worklist
from muster.core import Instant
from muster.schemas.facts.control import ClusterDescribed


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Options of the cluster named `cluster`; see `KubernetesSettings` for `bind_s`, `lost_s` and `kept_s`."""

    cluster: str
    namespace: str = "muster-jobs"
    """Namespace of its pods, with `{team}` for the team."""
    nodes: NodePolicy = field(default_factory=NodePolicy)
    bind_s: float = 60.0
    lost_s: float = 40.0
    kept_s: float = 300.0


class KubernetesCluster:
    """A Kubernetes cluster. Optional features share its worklist; `works` configures node work."""

    def __init__(
        self,
        options: ClusterOptions,
        manifests: Manifests,
        *,
        worklist: Worklist | None = None,
        auxiliary: AuxiliaryObjects | None = None,
        adopted: AdoptedPods | None = None,
        devices: Devices | None = None,
        machines: Machines | None = None,
        works: WorkPolicy | None = None,
    ) -> None:
        self.worklist = Worklist() if worklist is None else worklist  # an empty worklist is false
        self.notes = Notes()
        """Messages for the log, and counts for metrics."""
        self.manifests = manifests
        self.machines = self._machines = machines or NoMachines()
        self.nodes = Nodes(options.nodes, devices or Devices(), self._machines, lost_s=options.lost_s)
        context = Context(
            worklist=self.worklist,
            manifests=manifests,
            auxiliary=auxiliary or AuxiliaryObjects(),
            adopted=adopted or AdoptedPods(),
            nodes=self.nodes,
            notes=self.notes,
        )
        self.works = NodeWorks(works or WorkPolicy(), self.worklist, self.nodes.gpus)
        self._orphans = Orphans(self.worklist, self.notes, keep_s=options.kept_s)
        self.gangs = Gangs(context, self._orphans.seen, bind_s=options.bind_s)
        self.name, self._namespace = options.cluster, options.namespace
        self.auxiliary = context.auxiliary
        self._adopted = context.adopted
        self.is_broken = False
        """Whether the sink has failed: then the shell must be woken."""
        self._tell_at: Instant | None = None
        self._described: ClusterDescribed | None = None  # current
        self._told: ClusterDescribed | None = None  # in the log

    def carry_out(self, effect: Effect) -> None:
        """Accept an effect."""
        if isinstance(effect, PodsEffect):
            self.gangs.carry_out(effect)
        elif isinstance(effect, WorkOnNode):
            self.works.carry_out(effect)
        else:
            self._machines.carry_out(effect)

    def observe(self, now: Instant) -> Sequence[Observation]:
        """Return unacknowledged observations."""
        self.settle(now)
        if self._tell_at is not None:
            self._tell_at = max(self._tell_at, Instant(on_grid(now) + GRID_NS))
        return tuple(itertools.islice(self._observations(), OBSERVATIONS_MAX))

    def acknowledge(self, observation: Observation, at: Instant) -> None:
        """Record that the log has an observation."""
        if isinstance(observation, ClusterSeen):
            self._told = observation.description
        elif isinstance(observation, WorkSeen):
            self.works.acknowledge(observation)
        elif isinstance(observation, WordSeen):
            self._machines.acknowledge(observation, at)
        elif isinstance(observation, NodeObservation):
            self.nodes.acknowledge(observation, at)
            self._machines.acknowledge(observation, at)
            if isinstance(observation, NodeLostSeen | NodeLeftSeen):
                self.gangs.node_lost(observation.node)
        else:
            self.gangs.acknowledge(observation, at)

    def next_change(self) -> Instant | None:
        """Return when to observe. News are reported together on a grid, because every batch of facts is a guarded
        write."""
        if self.is_broken:
            return AT_ONCE
        if self._tell_at is not None:
            return self._tell_at
        moments = (
            self.gangs.next_change(),
            self.nodes.next_change(),
            self._machines.next_change(),
            self.works.next_change(),
        )
        orphan = self._orphans.next_change() if self.gangs.is_synced else None
        return min((moment for moment in (*moments, orphan) if moment is not None), default=None)

    @property
    def has_news(self) -> bool:
        """Return whether there is anything to report, as of the last `settle`."""
        is_described = self._described is not None and self._described != self._told
        moves = self._machines.next_change() == AT_ONCE
        return (
            is_described
            or moves
            or self.gangs.has_news
            or self.nodes.has_news
            or self.works.has_news
            or self._adopted.has_news
        )

    def settle(self, now: Instant) -> None:
        """Evaluate what changed or is due: calls and news follow."""
        self.gangs.settle(now)
        self.nodes.settle(now)
        self._machines.settle(now)
        self.works.settle(now)
        if self.gangs.is_synced:
            self._orphans.settle(now)
        if not self.has_news:
            self._tell_at = None
        elif self._tell_at is None:
            self._tell_at = on_grid(now)

    def take(self, now: Instant) -> Task | None:
        """Return the next call to make, None for none; report its outcome to `finished`."""
        return self.worklist.take(now)

    def finished(self, task: Task, outcome: Outcome, now: Instant) -> None:
        """Take the outcome of a call."""
        self.worklist.finished(task, outcome, now)

    def describe(self, description: ClusterDescribed) -> None:
        """Set the description of the cluster."""
        self._described = description

    def pod_seen(self, view: PodView, now: Instant) -> None:
        """Handle a new state of a pod. Foreign pods count as use of their node."""
        self._adopted.seen(view)
        if self.gangs.seen(view):
            self.nodes.pod_gone(view.key)  # the scheduler counts it
            return
        if view.plugin:
            self._machines.plugin_seen(view)
        if view.work:
            self.works.pod_seen(view)
        if self._is_ours(view):
            self._orphans.seen(view, now)
        self.nodes.pod_seen(view)

    def pod_gone(self, view: PodView) -> None:
        """Handle a deleted pod, given its last state."""
        self._adopted.gone(view)
        self.gangs.gone(view)
        if view.plugin:
            self._machines.plugin_gone(view)
        if view.work:
            self.works.pod_gone(view)
        self._orphans.gone(view.key)
        self.nodes.pod_gone(view.key)

    def node_seen(self, view: NodeView, now: Instant) -> None:
        """Handle a new state of a node."""
        self.nodes.seen(view, now)
        self._machines.node_seen(view)
        self.works.node_seen(view)

    def node_gone(self, name: str) -> None:
        """Handle a deleted node."""
        self.nodes.gone(name)
        self._machines.node_gone(name)
        self.works.node_gone(name)
        self.gangs.node_lost(name)

    def synced(self) -> None:
        """Record that everything was seen: from now on absence means deletion."""
        self._adopted.synced()
        self.gangs.synced()
        self.nodes.synced()
        self._machines.synced()
        self.works.synced()

    def outage(self, now: Instant) -> None:
        """Restart deadlines because the API server does not answer."""
        self.gangs.outage(now)

    def reset(self) -> None:
        """Forget everything that was seen, because the leader term ended."""
        self.worklist.clear()
        self.gangs.reset()
        self.nodes.reset()
        self._orphans.reset()
        self._machines.reset()
        self.works.reset()
        self.auxiliary.clear()
        self._adopted.clear()
        self._described = self._tell_at = None
        self.is_broken = False

    def has_namespace(self, namespace: str) -> bool:
        """Return whether Muster's own pods may be in the namespace."""
        before, _, behind = self._namespace.partition("{team}")
        if before == self._namespace:
            return namespace == before
        return namespace.startswith(before) and namespace.endswith(behind)

    def _is_ours(self, view: PodView) -> bool:
        """Return whether this Muster created the pod, by name and namespace: labels may be copied."""
        member = view.member
        if member is None or member.cluster != self.name or view.name != pod_name(member.key):
            return False
        return self.has_namespace(view.namespace)

    def _observations(self) -> Iterator[Observation]:
        if self._described is not None and self._described != self._told:
            yield ClusterSeen(self.name, self._described)
        yield from self.nodes.observations()
        yield from self._machines.observations()
        yield from self.works.observations()
        yield from self.gangs.observations()
