"""Several clusters of the federation's tests: what they report, and what people ask of them."""

from kit.federation import VirtualFederation
from muster.core import Fact, after
from muster.federation.core import MemberPlan
from muster.schemas.facts.control import ClusterSummary, TermStarted
from muster.schemas.facts.federation import (
    ClusterDrainRequested,
    ClusterResumeRequested,
    JobRerouteRequested,
    JobReturned,
    JobReturnRefused,
    RoutingChangeRequested,
)
from muster.schemas.facts.job import JobEnded
from muster.schemas.job import Job, Phase
from muster.schemas.routing import RoutingPolicy

EAST, WEST = MemberPlan("east"), MemberPlan("west")
LOST_AFTER_S, MARGIN_S = 100.0, 10.0
LEASED = (MemberPlan("east", LOST_AFTER_S), MemberPlan("west", LOST_AFTER_S))


class FederatedClusters(VirtualFederation):
    """Clusters that only report, by hand."""

    def __init__(self, members: tuple[MemberPlan, ...] = (EAST, WEST), policy: dict[str, object] | None = None) -> None:
        super().__init__(members=members, policy=RoutingPolicy.model_validate(policy or {}), margin_s=MARGIN_S)
        self.sources = 0

    def where(self, one: Job) -> str:
        return self.core.state.jobs[one.id].cluster

    def submit_all(self, *jobs: Job) -> None:
        """One after the other: the broker stamps no two alike."""
        for one in jobs:
            self.submit(one)
            self.now = after(self.now, 0.001)
        self.settle()

    def summary(self, cluster: str, **numbers: int) -> None:
        self.sources += 1
        told = ClusterSummary.model_validate({"cluster": cluster, "source_seq": self.sources, **numbers})
        self.write("federation", "cluster", cluster, "cluster-summarised", told)
        self.settle()

    def drain(self, cluster: str, *to: str) -> Fact:
        asked = ClusterDrainRequested(principal="root", reason="to be replaced", to=to)
        fact = self.write("gateway", "cluster", cluster, "drain-requested", asked)
        self.settle()
        return fact

    def resume(self, cluster: str) -> None:
        self.write("gateway", "cluster", cluster, "resume-requested", ClusterResumeRequested(principal="root"))
        self.settle()

    def reroute(self, one: Job, to: str = "") -> None:
        self.write("gateway", "job", one.id, "reroute-requested", JobRerouteRequested(principal="ada", to=to))
        self.settle()

    def give_back(self, one: Job, *, assignment: int = 1, cluster: str = "east") -> None:
        back = JobReturned(assignment=assignment, cluster=cluster)
        self.write("federation", "job", one.id, "job-returned", back)
        self.settle()

    def keep(self, one: Job, *, assignment: int = 1, cluster: str = "east") -> None:
        kept = JobReturnRefused(assignment=assignment, cluster=cluster, reason="it has started")
        self.write("federation", "job", one.id, "job-return-refused", kept)
        self.settle()

    def end_job(self, one: Job, *, assignment: int = 1, cluster: str = "east") -> None:
        ended = JobEnded(cluster=cluster, phase=Phase.SUCCEEDED, ended_at=self.now, assignment=assignment)
        self.write("federation", "job", one.id, "job-ended", ended)
        self.settle()

    def change_policy(self, policy: dict[str, object], *, based_on: int = 0) -> None:
        asked = RoutingChangeRequested(policy=RoutingPolicy.model_validate(policy), principal="root", based_on=based_on)
        self.write("gateway", "routing", "policy", "change-requested", asked)
        self.settle()

    def new_leader(self) -> None:
        self.write("federation", "log", "federation", "term-started", TermStarted(term=2, holder="b"))
        self.settle()
