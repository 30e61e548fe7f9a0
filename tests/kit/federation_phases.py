"""Where a cluster of a federation stands, as its core says."""

from kit.federation_clusters import FederatedClusters
from muster.schemas.facts.federation import ClusterPhase


def phase(world: FederatedClusters, cluster: str = "east") -> ClusterPhase:
    return world.core.state.members[cluster].phase
