"""What the API server has to allow before jobs are checked and nodes are worked on; both live in the cluster's core."""

from collections.abc import Sequence

from muster.agent.core.kubernetes.cluster import KubernetesCluster
from muster.agent.core.kubernetes.orders import PodOrders
from muster.agent.kubernetes.abilities import Abilities
from muster.agent.kubernetes.watching import Watch
from muster.core import Fact, Instant
from muster.kube.connection import KubeConnection
from muster.kube.permissions import Feature


class _AllowedPart:
    """Implements `parts.Part` for what needs no watch of its own."""

    def picks_devices(self) -> bool:
        """See `Part`."""
        return False

    async def run(self, connection: KubeConnection) -> None:
        """See `Part`. Nothing."""

    def after_fold(self, facts: Sequence[Fact], now: Instant) -> None:
        """See `Part`. Nothing."""


class PreflightPart(_AllowedPart):
    """Pods are made with checks only where their gates can be opened."""

    features = (Feature.PREFLIGHT,)

    def __init__(self, cluster: KubernetesCluster) -> None:
        self._cluster = cluster

    def watches(self, abilities: Abilities) -> Sequence[Watch]:
        """See `Part`."""
        orders = self._cluster.manifests
        if isinstance(orders, PodOrders):
            orders.is_checking = abilities.has(Feature.PREFLIGHT)
        return ()


class NodeWorkPart(_AllowedPart):
    """What cannot be done to nodes is told so, instead of being tried."""

    features = (Feature.NODE_WORK,)

    def __init__(self, cluster: KubernetesCluster) -> None:
        self._cluster = cluster

    def watches(self, abilities: Abilities) -> Sequence[Watch]:
        """See `Part`."""
        self._cluster.works.may_work = abilities.has(Feature.NODE_WORK)
        return ()
