"""An agent that begins to lead where the API server may let it see less than it wants."""

from collections.abc import Iterable

from kit.composer import START
from muster.agent.core.cluster import WordSeen
from muster.agent.core.kubernetes.cdi.composable import ComposableMachines
from muster.agent.core.kubernetes.cluster import KubernetesCluster
from muster.agent.kubernetes.abilities import Abilities
from muster.agent.kubernetes.backend import new_core
from muster.agent.kubernetes.cdi import CdiPart
from muster.bus.kubernetes_settings import KubernetesSettings
from muster.core import Fact
from muster.core.settings import ScalingSettings
from muster.kube.permissions import Feature


class Leader:
    """It folded these facts, and sees no object at the API server, be it that there is none or that it may not look."""

    def __init__(self, settings: KubernetesSettings, facts: Iterable[Fact] = ()) -> None:
        core = new_core("atlas", settings, ScalingSettings(), operated="one")
        cluster = core.cluster
        assert isinstance(cluster, KubernetesCluster)
        assert isinstance(cluster.machines, ComposableMachines)
        self.worklist, self.machines = cluster.worklist, cluster.machines
        self.part = CdiPart(settings, self.machines, core)
        for fact in facts:
            self.machines.apply(fact)

    def begin(self, *lacking: Feature) -> None:
        self.machines.reset()
        self.part.watches(Abilities("v1.34.0", frozenset(), tuple((one, "no permission") for one in lacking)))
        self.machines.synced()
        self.machines.settle(START)

    def said(self) -> list[str]:
        """What would become facts, by name."""
        return [one.name if isinstance(one, WordSeen) else type(one).__name__ for one in self.machines.observations()]
