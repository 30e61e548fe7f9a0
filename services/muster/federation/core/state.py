"""What the federation believes: every live job, what was asked of it, where clusters stand, and their last words."""

from collections import Counter
from dataclasses import dataclass, field

from muster.federation.core.lanes import Lanes
from muster.federation.core.members import Member
from muster.schemas.facts.composability import ComposeWish
from muster.schemas.facts.control import ClusterSummary
from muster.schemas.facts.federation import ClusterWish, RoutingWish
from muster.schemas.facts.job import JobRouted, RoutedState
from muster.schemas.facts.job_wishes import with_wish
from muster.schemas.facts.operations import OperationWish
from muster.schemas.facts.queue import QueueWish
from muster.schemas.facts.reservation import ReservationWish
from muster.schemas.facts.workload import RefusalState
from muster.schemas.job import Phase
from muster.schemas.routing import RoutingPolicy

ENDED_KEPT = 4_000
"""Ended jobs that are remembered; what still comes for older ones is counted as unknown."""


@dataclass(slots=True)
class RoutedJob(RoutedState):
    """A job that the federation knows."""

    milli: int = field(init=False)
    """Its milli-GPUs."""

    def __post_init__(self) -> None:
        self.milli = self.job.spec.gpu_milli_total

    @property
    def may_move(self) -> bool:
        """Whether another cluster may have it, once it has one."""
        return not self.job.spec.pin and self.job.origin is None


@dataclass(slots=True)
class State:
    """members: the clusters, in the order of the settings. policy, policy_version, policy_by: as changed last.
    routing_wishes, strange_wishes: for another policy, and for clusters that are no members; not answered yet.
    lanes: jobs that want a cluster and did not get one at once. used: milli-GPUs of jobs that have a cluster, by team.
    dirty: jobs that may need an answer. wishes, reservations, devices: what was asked of queues, of reservations and
    of devices and not yet forwarded, by the fact that asked. refusals: not yet forwarded, by the job that is refused.
    operations: asked of nodes, campaigns and brakes and not yet forwarded. stranded: jobs whose cluster is no member.
    requests: ids of those that were folded.

    facts: folded since the last `checkpoint-requested`.
    """

    jobs: dict[str, RoutedJob] = field(default_factory=dict)
    ended: dict[str, None] = field(default_factory=dict)
    dirty: dict[str, None] = field(default_factory=dict)
    wishes: dict[str, QueueWish] = field(default_factory=dict)
    reservations: dict[str, ReservationWish] = field(default_factory=dict)
    devices: dict[str, ComposeWish] = field(default_factory=dict)
    refusals: dict[str, RefusalState] = field(default_factory=dict)
    operations: dict[str, OperationWish] = field(default_factory=dict)
    stranded: dict[str, None] = field(default_factory=dict)
    requests: dict[str, None] = field(default_factory=dict)
    clusters: dict[str, ClusterSummary] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    policy: RoutingPolicy = field(default_factory=RoutingPolicy)
    policy_version: int = 0
    policy_by: str = ""
    routing_wishes: dict[str, RoutingWish] = field(default_factory=dict)
    strange_wishes: dict[str, ClusterWish] = field(default_factory=dict)
    lanes: Lanes = field(default_factory=Lanes)
    used: dict[str, int] = field(default_factory=dict)
    anomalies: Counter[str] = field(default_factory=Counter)
    facts: int = 0
    checkpoint_cause: str = ""

    def member_of(self, record: RoutedJob) -> Member | None:
        """The cluster that has the job; None for one that is no member, or none at all."""
        return self.members.get(record.cluster)

    def is_member(self, cluster: str, *, what: str) -> bool:
        """Return whether facts may be addressed to that cluster; count `what` as an anomaly if not.

        Nobody may publish what is addressed to any other: the broker knows no such subject.
        """
        if cluster in self.members:
            return True
        self.anomalies[f"{what} for a cluster that is no member"] += 1
        return False

    def check_address(self, record: RoutedJob) -> None:
        """Note whether the cluster that alone may have the job is a member."""
        job = record.job
        cluster = record.cluster or (job.origin.cluster if job.origin is not None else "")
        if cluster and cluster not in self.members:
            self.stranded[job.id] = None
        else:
            self.stranded.pop(job.id, None)

    def assign(self, record: RoutedJob, routed: JobRouted, *, at: int) -> None:
        """The job is this cluster's from now on."""
        record.cluster, record.assignment = routed.cluster, routed.assignment
        record.lost_after_s, record.rule, record.routed_at = routed.lost_after_s, routed.rule, at
        record.reroute = None
        self.lanes.remove(record.job.id)
        self.check_address(record)
        self.count(record)
        member = self.members.get(record.cluster)
        if member is not None:
            member.came += 1

    def count(self, record: RoutedJob) -> None:
        """The job has a cluster: it counts for its team and there, unless that cluster is no member."""
        member = self.members.get(record.cluster)
        if member is None:
            return
        team = record.job.spec.team
        self.used[team] = self.used.get(team, 0) + record.milli
        member.jobs[record.job.id] = None
        member.milli += record.milli

    def unassign(self, record: RoutedJob) -> None:
        """No cluster counts the job any more; which one had it stands on the record until somebody takes it off."""
        member = self.members.get(record.cluster)
        if member is None or record.phase.is_terminal:
            return
        team = record.job.spec.team
        left = self.used.get(team, 0) - record.milli  # jobs without GPUs count nothing: the team may be gone already
        if left:
            self.used[team] = left
        else:
            self.used.pop(team, None)
        del member.jobs[record.job.id]
        member.milli -= record.milli
        self.lanes.stir()

    def take_back(self, record: RoutedJob) -> None:
        """The cluster has no part in the job any more: whoever gets it next is told again what is asked of it."""
        self.unassign(record)
        record.cluster, record.lost_after_s, record.cancel_forwarded = "", 0.0, False
        wishes = record.standing
        for wish in record.wishes:
            wishes = with_wish(wishes, wish)
        record.wishes, record.standing = wishes, ()
        self.check_address(record)

    def end(self, record: RoutedJob, phase: Phase) -> None:
        """The job ended; the oldest of the ended are forgotten."""
        self.unassign(record)
        record.phase, record.wishes, record.standing, record.reroute = phase, (), (), None
        self.lanes.remove(record.job.id)
        self.ended[record.job.id] = None
        self.dirty.pop(record.job.id, None)
        self.stranded.pop(record.job.id, None)
        while len(self.ended) > ENDED_KEPT:
            oldest = next(iter(self.ended))
            del self.ended[oldest], self.jobs[oldest]
