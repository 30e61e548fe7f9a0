"""The Kubernetes backend keeps the contract of all clusters: its pure part, on a store of objects in virtual time."""

from collections.abc import Sequence

from contract.cluster.checked import CheckedContract
from contract.cluster.kubernetes_world import World
from contract.cluster.suite import moment
from contract.cluster.worked_on import WorkedOnContract
from kit.kube.fake.store import Event, Store
from muster.agent.core.cluster import Cluster, CreatePods, Effect, Observation
from muster.agent.core.kubernetes.cluster import ClusterOptions, KubernetesCluster
from muster.agent.core.kubernetes.node_jobs import WorkPolicy
from muster.agent.core.kubernetes.options import PodPolicy
from muster.agent.core.kubernetes.orders import PodOrders
from muster.agent.core.kubernetes.projections import NodeProjection, PodProjection
from muster.core import NS_PER_S, Instant
from muster.core.settings import NodeActionSettings
from muster.kube.objects import name_of
from muster.kube.resources import NODES, PODS
from muster.schemas.facts.operations import NodeAction

WORKS = WorkPolicy(cluster="atlas", image="tools", actions={NodeAction.REBOOT: NodeActionSettings(command=("reboot",))})


class Driven:
    """Implements `Cluster`: a shell that works every call at once and sees every change at once."""

    def __init__(self) -> None:
        self.world = World(Store())
        options = ClusterOptions(cluster="atlas", lost_s=0.5)
        orders = PodOrders(PodPolicy(cluster="atlas", image="busybox", preflight_image="tools"))
        self.cluster = KubernetesCluster(options, orders, works=WORKS)
        self.world.on_event = self._work
        self.world.store.listeners.append(self._see)
        for name in ("gpu-0001", "gpu-0002"):
            self.world.add_node(name)
        self.cluster.synced()

    @property
    def now(self) -> Instant:
        return moment(self.world.now_s)

    def carry_out(self, effect: Effect) -> None:
        self.world.advance((effect.at - moment(0)) / NS_PER_S if hasattr(effect, "at") else 0)
        if isinstance(effect, CreatePods):
            self.world.plan(effect)
        self.cluster.carry_out(effect)
        self._work()

    def observe(self, now: Instant) -> Sequence[Observation]:
        self.world.advance((now - moment(0)) / NS_PER_S)
        return self.cluster.observe(now)

    def acknowledge(self, observation: Observation, at: Instant) -> None:
        self.cluster.acknowledge(observation, at)
        self._work()

    def next_change(self) -> Instant | None:
        moments = [self.cluster.next_change()]
        if (next_s := self.world.next_s()) is not None:
            moments.append(moment(next_s))
        return min((one for one in moments if one is not None), default=None)

    def _work(self) -> None:
        self.cluster.settle(self.now)
        while (task := self.cluster.take(self.now)) is not None:
            self.cluster.finished(task, self.world.do(task.call), self.now)
            self.cluster.settle(self.now)

    def _see(self, event: Event) -> None:
        raw = event.now.obj
        if event.resource == NODES:
            self.cluster.node_gone(name_of(raw)) if event.gone else self.cluster.node_seen(
                NodeProjection()(raw), self.now
            )
        elif event.resource == PODS:
            view = PodProjection()(raw)
            self.cluster.pod_gone(view) if event.gone else self.cluster.pod_seen(view, self.now)


class TestKubernetesCluster(CheckedContract, WorkedOnContract):
    def new_cluster(self) -> Cluster:
        return Driven()

    def failing_cluster(self) -> Cluster:
        driven = Driven()
        driven.world.bad_nodes["gpu-0001"] = "gpu-health"
        return driven

    def lose_node(self, cluster: Cluster, node: str, *, at_s: float) -> None:
        assert isinstance(cluster, Driven)
        cluster.world.at(at_s, lambda: cluster.world.set_ready(node, ready=False))
        cluster.world.at(at_s + 300, lambda: cluster.world.set_ready(node, ready=True))
