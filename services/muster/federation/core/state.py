"""What the federation believes: every live job, what was asked of it, where clusters stand, and their last words."""

import math
from collections import Counter
from dataclasses import dataclass, field

from muster.core import NS_PER_S, Instant
from muster.federation.core.pending import PendingQueues
from muster.schemas.facts.composability import ComposeWish
from muster.schemas.facts.control import ClusterSummary
from muster.schemas.facts.federation import (
    ClusterPhase,
    ClusterWish,
    MemberState,
    RoutingWish,
)
from muster.schemas.facts.job import JobRouted, RoutedState
from muster.schemas.facts.job_wishes import with_wish
from muster.schemas.facts.operations import OperationWish
from muster.schemas.facts.queue import QueueWish
from muster.schemas.facts.reservation import ReservationWish
from muster.schemas.facts.workload import RefusalState
from muster.schemas.job import Phase
from muster.schemas.routing import RoutingPolicy

FREED_OVER_S = 600.0
"""Over so many seconds it is smoothed how many GPUs come free."""


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """A cluster as the settings say. lost_after_s: silent for so long it is given up; 0: never."""

    name: str
    lost_after_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class Member(MemberState):
    """One cluster of the federation."""

    name: str
    lost_after_s: float = 0.0
    jobs: dict[str, None] = field(default_factory=dict)
    """Ids of jobs that were routed there and have not ended."""
    milli: int = 0
    """Milli-GPUs of these jobs."""
    came: int = 0
    """Jobs that were routed there since its last summary."""
    went: int = 0
    """Jobs that ended there since its last summary."""

    @property
    def is_at_home(self) -> bool:
        """Whether nothing has to be remembered of it but what the settings say."""
        told = self.since or self.answered or self.granted_until or self.wishes or self.freed_at
        return self.phase is ClusterPhase.ACTIVE and not told

    def move(self, phase: ClusterPhase, *, at: int, fact: str) -> None:
        """It stands there from now on."""
        self.phase, self.since, self.fact = phase, at, fact

    def free(self, milli: int, *, at: int) -> None:
        """A job ended there, and its GPUs came free."""
        self.freed_milli_per_s = self.freed_rate(at) + milli / FREED_OVER_S
        self.freed_at = at

    def freed_rate(self, now: int) -> float:
        """Milli-GPUs that come free in a second, lately: a sum of ends, each decaying exponentially."""
        return self.freed_milli_per_s * math.exp(-max(0, now - self.freed_at) / NS_PER_S / FREED_OVER_S)

    def grant(self, until: int) -> None:
        """Its jobs may run until then, as far as the federation has to reckon with it."""
        self.granted_until = max(self.granted_until, until)

    def is_silent(self, now: Instant) -> bool:
        """Whether it may be about to be lost: half of that time is over."""
        if not self.lost_after_s or not self.answered_at:
            return False
        return now - self.answered_at > self.lost_after_s * NS_PER_S / 2

    def gives_up_at(self) -> Instant | None:
        """When its jobs may be given to others; None if never."""
        return Instant(self.granted_until) if self.lost_after_s and self.granted_until else None


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
    """What the federation has of jobs, clusters and requests."""

    jobs: dict[str, RoutedJob] = field(default_factory=dict)
    ended: dict[str, None] = field(default_factory=dict)
    dirty: dict[str, None] = field(default_factory=dict)
    """Jobs that may need an answer."""
    wishes: dict[str, QueueWish] = field(default_factory=dict)
    """Requests for queues that are not forwarded yet, by the fact of the request; so are those of the next two."""
    reservations: dict[str, ReservationWish] = field(default_factory=dict)
    devices: dict[str, ComposeWish] = field(default_factory=dict)
    refusals: dict[str, RefusalState] = field(default_factory=dict)
    """Not forwarded yet, by the job that is refused."""
    operations: dict[str, OperationWish] = field(default_factory=dict)
    """Requests for nodes, campaigns and brakes that are not forwarded yet."""
    stranded: dict[str, None] = field(default_factory=dict)
    """Jobs whose cluster is no member."""
    requests: dict[str, None] = field(default_factory=dict)
    """Ids of those that were folded."""
    clusters: dict[str, ClusterSummary] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    """The clusters, in the order of the settings."""
    policy: RoutingPolicy = field(default_factory=RoutingPolicy)
    policy_version: int = 0
    policy_by: str = ""
    routing_wishes: dict[str, RoutingWish] = field(default_factory=dict)
    """Requests for another policy without an answer."""
    strange_wishes: dict[str, ClusterWish] = field(default_factory=dict)
    """Requests for clusters that are no members, without an answer."""
    pending: PendingQueues = field(default_factory=PendingQueues)
    """Jobs that want a cluster and did not get one at once."""
    used: dict[str, int] = field(default_factory=dict)
    """Milli-GPUs of jobs that have a cluster, by team."""
    anomalies: Counter[str] = field(default_factory=Counter)
    facts: int = 0
    """Folded since the last `checkpoint-requested`."""
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
        self.pending.remove(record.job.id)
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
        self.pending.mark_dirty()

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
        self.pending.remove(record.job.id)
        self.ended[record.job.id] = None
        self.dirty.pop(record.job.id, None)
        self.stranded.pop(record.job.id, None)
        while len(self.ended) > ENDED_KEPT:
            oldest = next(iter(self.ended))
            del self.ended[oldest], self.jobs[oldest]
