"""Scheduler configurations that come with Muster, as KubeSchedulerConfiguration v1."""

from collections.abc import Mapping
from pathlib import Path

from muster_tools.local_kubernetes.commands import CLIENT_BURST, CLIENT_QPS
from muster_tools.local_kubernetes.options import Profile

GPU = "nvidia.com/gpu"
TOPOLOGY_PLUGIN = "NodeTopology"
"""As go/topology-scheduler calls it."""


def configuration(profile: Profile, *, scheduler_name: str, kubeconfig: Path) -> Mapping[str, object]:
    """The whole configuration of one scheduler with one profile."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": CLIENT_QPS, "burst": CLIENT_BURST},
        "profiles": [{"schedulerName": scheduler_name, **_profile(profile)}],
    }


def _profile(profile: Profile) -> Mapping[str, object]:
    match profile:
        case Profile.DEFAULT:
            return {}
        case Profile.BIN_PACKING:
            return {"pluginConfig": [_FULLEST_FIRST], "plugins": {"score": _NO_BALANCE}}
        case Profile.TOPOLOGY:
            by_zone = {"enabled": [{"name": TOPOLOGY_PLUGIN, "weight": 2}]}
            return {"pluginConfig": [_FULLEST_FIRST], "plugins": {"multiPoint": by_zone, "score": _NO_BALANCE}}


_FULLEST_FIRST = {
    "name": "NodeResourcesFit",
    "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": GPU, "weight": 1}]}},
}
"""Judged by GPUs alone: what keeps whole nodes free for large pods."""
_NO_BALANCE = {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}
