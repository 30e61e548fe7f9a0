"""What the settings of a cluster say of the objects that ask for its jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.agent.core.workloads.values import NoJobError
from muster.schemas import ids


@dataclass(frozen=True, slots=True)
class WorkloadPolicy:
    """cluster: as Muster calls it. teams: by namespace; objects of other namespaces can be no jobs.

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
        """Whether objects of this namespace are looked at."""
        return not self.namespaces or namespace in self.namespaces

    def team(self, namespace: str) -> str:
        """For whom objects of this namespace ask. Raises NoJobError where the settings name no team for it."""
        team = self.teams.get(namespace)
        if team is None:
            raise NoJobError(
                f"namespace {namespace} acts for no team of Muster",
                field="metadata.namespace",
                cure="Have the administrator name its team in kubernetes.teams of Muster's settings.",
            )
        return team

    def job_id(self, namespace: str, uid: str) -> str:
        """Of the job that this very object stands for; an id that no job has where its namespace acts for no team."""
        team = self.teams.get(namespace, "")
        return ids.origin_job_id(team=team, cluster=self.cluster, namespace=namespace, uid=uid)

    def is_job_of(self, job_id: str, *, namespace: str, uid: str) -> bool:
        """Whether the id that an object shows is that of its job, and not copied from another object.

        Jobs that were made before ids named clusters show what was theirs then: they must not run once more.
        """
        return job_id in (self.job_id(namespace, uid), self._job_id_before(namespace, uid))

    def _job_id_before(self, namespace: str, uid: str) -> str:
        """When ids did not name clusters, and a namespace acted for the team of its own name unless it was named."""
        team, key = self.teams.get(namespace, namespace), f"kubernetes-{uid}"
        return ids.job_id(team=team, principal=ids.origin_principal(namespace), idempotency_key=key)
