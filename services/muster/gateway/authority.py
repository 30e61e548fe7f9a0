"""What a cluster's objects may ask: it follows from the log that a wish stands in, and from the settings. Pure.

Whoever holds a cluster's agent can write any wish into its log. So nothing that a wish says of itself counts: the
cluster is the log's, the object is the subject, and the team is the one that the administrator named for the namespace.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.bus.settings import Settings
from muster.core.fact import Fact
from muster.gateway.authorise import Principal
from muster.gateway.problems import invalid
from muster.schemas import ids
from muster.schemas.access import Role
from muster.schemas.facts.workload import WorkloadCancelRequested, WorkloadSubmitRequested
from muster.schemas.job import Job, WorkloadRef

PRINCIPAL_PREFIX = ids.origin_principal("")


@dataclass(frozen=True, slots=True)
class Authority:
    """The wishes of one cluster's log. teams: for which team each of its namespaces acts. setting: that says so."""

    cluster: str
    teams: Mapping[str, str] = field(default_factory=dict)
    setting: str = "kubernetes.teams"

    def speaks_for(self, asked: Fact, origin: WorkloadRef) -> bool:
        """Whether the object that a wish names is the one that it is about, and of this cluster."""
        return origin.cluster == self.cluster and origin.uid == asked.subject_id

    def job_id_of(self, origin: WorkloadRef) -> str:
        """The job that the object can have. That of a namespace without a team is nobody's: it is only refused."""
        return self._job_id(origin.namespace, origin.uid)

    def acting(self, origin: WorkloadRef) -> Principal:
        """Return whom the object acts as: who may make objects in a team's namespace may as much as its submitters."""
        team = self.teams.get(origin.namespace)
        return Principal(ids.origin_principal(origin.namespace), Role.SUBMITTER, frozenset(filter(None, (team,))))

    def refuse_other_team(self, wish: WorkloadSubmitRequested) -> None:
        """Raises ProblemError (422) unless the object's namespace acts for the team that it asks for."""
        namespace, team = wish.origin.namespace, self.teams.get(wish.origin.namespace)
        if team is None:
            raise invalid(
                f"namespace {namespace} of cluster {self.cluster} acts for no team",
                field="metadata.namespace",
                cure=f"Name its team in {self.setting}.",
            )
        if team != wish.spec.team:
            raise invalid(
                f"namespace {namespace} of cluster {self.cluster} acts for team {team} by {self.setting}, and for "
                f"{wish.spec.team} by kubernetes.teams in the settings of the cluster's agent",
                field="metadata.namespace",
                cure="Let both settings say the same.",
            )

    def principal_of(self, asked: Fact, wish: WorkloadCancelRequested) -> str | None:
        """On whose behalf the object cancels its job, if the job's id says that it is this object's; else None.

        The cluster and the object are part of what the id is a hash of, so nobody else's job has it.
        """
        namespace = wish.principal.removeprefix(PRINCIPAL_PREFIX)
        is_own = namespace in self.teams and self._job_id(namespace, asked.subject_id) == wish.job_id
        return ids.origin_principal(namespace) if is_own else None

    def is_job_of(self, asked: Fact, job: Job) -> bool:
        """Whether the job, as it was submitted, stands for the object that a wish is about."""
        return job.origin is not None and self.speaks_for(asked, job.origin)

    def _job_id(self, namespace: str, uid: str) -> str:
        team = self.teams.get(namespace, "")
        return ids.origin_job_id(team=team, cluster=self.cluster, namespace=namespace, uid=uid)


def authority_of(settings: Settings, cluster: str) -> Authority:
    """Of one cluster whose log this gateway reads: in a centre by its own settings, never by the cell's."""
    if settings.role == "centre":
        member = next(member for member in settings.federation.clusters if member.name == cluster)
        return Authority(cluster, member.teams, f"teams of {cluster} in federation.clusters of the centre")
    return Authority(cluster, settings.kubernetes.teams if settings.kubernetes is not None else {})
