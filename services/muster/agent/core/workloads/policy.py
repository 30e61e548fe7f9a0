"""What the settings of a cluster say of the objects that ask for its jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.schemas import ids


@dataclass(frozen=True, slots=True)
class WorkloadPolicy:
    """cluster: as Muster calls it. teams: by namespace; others are the team of their namespace's own name.

    namespaces: whose objects are taken up; empty: all. resource: what a GPU is called as an extended resource. sharing:
    thousandths of a GPU by extended resource. model_label: node label of the GPUs' model; models: our name by what that
    label says. device_class: of claims whose devices Muster gives.
    """

    cluster: str
    teams: Mapping[str, str] = field(default_factory=dict)
    namespaces: frozenset[str] = frozenset()
    resource: str = "nvidia.com/gpu"
    sharing: Mapping[str, int] = field(default_factory=dict)
    model_label: str = "nvidia.com/gpu.product"
    models: Mapping[str, str] = field(default_factory=dict)
    device_class: str = "gpu.muster.dev"

    def takes_up(self, namespace: str) -> bool:
        """Whether objects of this namespace can become jobs."""
        return not self.namespaces or namespace in self.namespaces

    def team(self, namespace: str) -> str:
        """For whom objects of this namespace ask."""
        return self.teams.get(namespace, namespace)

    def job_id(self, namespace: str, uid: str) -> str:
        """Of the job that this very object stands for."""
        return ids.job_id(
            team=self.team(namespace), principal=principal(namespace), idempotency_key=ids.origin_key(uid)
        )


def principal(namespace: str) -> str:
    """On whose behalf an object asks: nobody knows which person made it."""
    return f"kubernetes:{namespace}"
