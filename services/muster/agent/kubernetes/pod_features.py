"""Features of pods and nodes that depend on what the API server allows; what they do lives in the cluster's core."""

from collections.abc import Sequence

from muster.agent.core.kubernetes import names
from muster.agent.core.kubernetes.cluster import KubernetesCluster
from muster.agent.core.kubernetes.orders import PodOrders
from muster.agent.kubernetes.abilities import Abilities
from muster.agent.kubernetes.parts import KindWatch, Part, Watch
from muster.core import Instant
from muster.kube.holdings import Change
from muster.kube.objects import JsonObject, strings
from muster.kube.permissions import Feature
from muster.kube.resources import NAMESPACES
from muster.kube.shapes import Selection


class TeamNamespacesPart(Part):
    """Which namespaces are a team's: the label that whoever administers the cluster gave them.

    Only where `kubernetes.namespace` has `{team}`.
    """

    features = (Feature.TEAM_NAMESPACES,)

    def __init__(self, cluster: KubernetesCluster) -> None:
        self._cluster = cluster

    def watches(self, abilities: Abilities) -> Sequence[Watch]:
        """See `Part`."""
        orders = self._cluster.manifests
        if not isinstance(orders, PodOrders) or not abilities.has(Feature.TEAM_NAMESPACES):
            return ()
        orders.team_of.clear()

        def feed(change: Change[str], now: Instant) -> None:  # noqa: ARG001 - the port
            if change.now is None:
                orders.team_of.pop(change.key.name, None)
            else:
                orders.team_of[change.key.name] = change.now

        return (KindWatch(NAMESPACES, _team, feed, select=Selection(labels=names.TEAM_LABEL), metadata_only=True),)


def _team(namespace: JsonObject) -> str:
    return strings(namespace, "metadata", "labels").get(names.TEAM_LABEL, "")


class PreflightPart(Part):
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


class NodeWorkPart(Part):
    """What cannot be done to nodes is told so, instead of being tried."""

    features = (Feature.NODE_WORK,)

    def __init__(self, cluster: KubernetesCluster) -> None:
        self._cluster = cluster

    def watches(self, abilities: Abilities) -> Sequence[Watch]:
        """See `Part`."""
        self._cluster.works.may_work = abilities.has(Feature.NODE_WORK)
        return ()
