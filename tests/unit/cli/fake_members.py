"""The federation's part of a Muster that answers from memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from muster.client import NotFoundError
from muster.schemas.facts.federation import ClusterPhase
from muster.schemas.members import AssignmentView, FederationView, MemberView, RoutesView, WaitingView
from muster.schemas.routing import RoutingPolicy
from muster.schemas.views import Problem


@dataclass
class FakeMembers:
    """asked: what was asked, with its options."""

    clusters: dict[str, MemberView] = field(
        default_factory=lambda: {name: MemberView(name=name, jobs=3) for name in ("east", "west")}
    )
    lanes: tuple[WaitingView, ...] = ()
    policy: RoutingPolicy = field(default_factory=RoutingPolicy)
    version: int = 0
    asked: list[tuple[object, ...]] = field(default_factory=list)

    async def federation(self) -> FederationView:
        return FederationView(clusters=tuple(self.clusters.values()), waiting=self.lanes)

    async def drain_cluster(self, cluster: str, *, to: Sequence[str] = (), reason: str = "") -> MemberView:
        self.asked.append(("drain", cluster, tuple(to), reason))
        return self._cluster(cluster, ClusterPhase.DRAINING)

    async def resume_cluster(self, cluster: str, *, reason: str = "") -> MemberView:
        self.asked.append(("resume", cluster, reason))
        return self._cluster(cluster, ClusterPhase.ACTIVE)

    async def routes(self) -> RoutesView:
        return RoutesView(policy=self.policy, version=self.version, by="root" if self.version else "")

    async def set_routes(self, policy: RoutingPolicy, *, based_on: int = 0) -> RoutesView:
        self.asked.append(("set", policy, based_on))
        self.policy, self.version = policy, self.version + 1
        return await self.routes()

    async def reroute(self, job_id: str, *, to: str = "", reason: str = "") -> AssignmentView:
        self.asked.append(("reroute", job_id, to, reason))
        return AssignmentView(known=True, cluster="east")

    def _cluster(self, name: str, state: ClusterPhase) -> MemberView:
        if name not in self.clusters:
            raise NotFoundError(Problem(title="Not found", status=404, detail=f"there is no cluster {name!r}"))
        return self.clusters[name].model_copy(update={"state": state})
