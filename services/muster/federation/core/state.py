"""The federation's state: live jobs, requests, and clusters with their last summaries."""

import math
from collections import Counter
from dataclasses import dataclass, field

from muster.core import NS_PER_S, Instant
from muster.federation.core.pending import PendingQueues
from muster.schemas.facts.composability import PendingDeviceRequest
from muster.schemas.facts.control import ClusterSummary
from muster.schemas.facts.federation import (
    ClusterPhase,
    MemberState,
    PendingClusterChange,
    PendingRoutingChange,
)
from muster.schemas.facts.job import JobRouted, RoutedState
from muster.schemas.facts.job_requests import with_edit, with_pending
from muster.schemas.facts.operations import PendingOperation
from muster.schemas.facts.queue import PendingQueueChange
from muster.schemas.facts.reservation import PendingReservation
from muster.schemas.facts.workload import RefusalState
from muster.schemas.job import Phase
from muster.schemas.routing import RoutingPolicy

FREED_OVER_S = 600.0
"""Time over which the rate of freed GPUs is smoothed, in seconds."""


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """A cluster of the settings. lost_after_s: silence after which it is lost; 0: never."""

    name: str
    lost_after_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class Member(MemberState):
    """One cluster of the federation."""

    name: str
    lost_after_s: float = 0.0
    jobs: dict[str, None] = field(default_factory=dict)
    """Ids of live jobs that were routed there."""
    milli: int = 0
    """GPUs of these jobs, in thousandths."""
    came: int = 0
    """Jobs routed there since its last summary."""
    went: int = 0
    """Jobs ended there since its last summary."""

    @property
    def is_at_home(self) -> bool:
        """Return whether its state equals the settings, so that nothing has to be recorded."""
        told = self.since or self.answered or self.granted_until or self.wishes or self.freed_at
        return self.phase is ClusterPhase.ACTIVE and not told

    def move(self, phase: ClusterPhase, *, at: int, fact: str) -> None:
        """Set the phase."""
        self.phase, self.since, self.fact = phase, at, fact

    def free(self, milli: int, *, at: int) -> None:
        """Record the GPUs that an ended job freed."""
        self.freed_milli_per_s = self.freed_rate(at) + milli / FREED_OVER_S
        self.freed_at = at

    def freed_rate(self, now: int) -> float:
        """Return the recent rate of freed GPUs, in thousandths per second: a sum of ends that decays exponentially."""
        return self.freed_milli_per_s * math.exp(-max(0, now - self.freed_at) / NS_PER_S / FREED_OVER_S)

    def grant(self, until: int) -> None:
        """Extend the time until which its jobs may run, from the federation's point of view."""
        self.granted_until = max(self.granted_until, until)

    def is_silent(self, now: Instant) -> bool:
        """Return whether it may soon be lost: half of the time is over."""
        if not self.lost_after_s or not self.answered_at:
            return False
        return now - self.answered_at > self.lost_after_s * NS_PER_S / 2

    def gives_up_at(self) -> Instant | None:
        """Return when its jobs may be rerouted; None for never."""
        return Instant(self.granted_until) if self.lost_after_s and self.granted_until else None


ENDED_KEPT = 4_000
"""Maximum number of ended jobs that are remembered; facts about older ones count as unknown."""


@dataclass(slots=True)
class RoutedJob(RoutedState):
    """A job that the federation knows."""

    milli: int = field(init=False)
    """GPUs of the job, in thousandths."""

    def __post_init__(self) -> None:
        self.milli = self.job.spec.gpu_milli_total

    @property
    def may_move(self) -> bool:
        """Return whether the job may move to another cluster."""
        return not self.job.spec.pin and self.job.origin is None


@dataclass(slots=True)
class State:
    """Jobs, clusters and requests of the federation."""

    jobs: dict[str, RoutedJob] = field(default_factory=dict)
    ended: dict[str, None] = field(default_factory=dict)
    dirty: dict[str, None] = field(default_factory=dict)
    """Jobs that may need an answer."""
    wishes: dict[str, PendingQueueChange] = field(default_factory=dict)
    """Requests for queues that are not forwarded yet, by their fact; likewise the next two fields."""
    reservations: dict[str, PendingReservation] = field(default_factory=dict)
    devices: dict[str, PendingDeviceRequest] = field(default_factory=dict)
    refusals: dict[str, RefusalState] = field(default_factory=dict)
    """Refusals that are not forwarded yet, by their job."""
    operations: dict[str, PendingOperation] = field(default_factory=dict)
    """Requests for nodes, campaigns and brakes that are not forwarded yet."""
    stranded: dict[str, None] = field(default_factory=dict)
    """Jobs whose cluster is not a member."""
    requests: dict[str, None] = field(default_factory=dict)
    """Ids of folded requests."""
    clusters: dict[str, ClusterSummary] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    """The clusters, in the order of the settings."""
    policy: RoutingPolicy = field(default_factory=RoutingPolicy)
    policy_version: int = 0
    policy_by: str = ""
    routing_requests: dict[str, PendingRoutingChange] = field(default_factory=dict)
    """Unanswered requests for another policy."""
    strange_requests: dict[str, PendingClusterChange] = field(default_factory=dict)
    """Unanswered requests for clusters that are not members."""
    pending: PendingQueues = field(default_factory=PendingQueues)
    """Jobs that wait for a cluster."""
    used: dict[str, int] = field(default_factory=dict)
    """GPUs of routed jobs by team, in thousandths."""
    anomalies: Counter[str] = field(default_factory=Counter)
    facts: int = 0
    """Facts folded since the last `checkpoint-requested`."""
    checkpoint_cause: str = ""

    def member_of(self, record: RoutedJob) -> Member | None:
        """Return the job's cluster; None if it has none or it is not a member."""
        return self.members.get(record.cluster)

    def is_member(self, cluster: str, *, what: str) -> bool:
        """Return whether facts may be addressed to that cluster; if not, count `what` as an anomaly.

        Facts addressed to any other cluster cannot be published: the broker has no such subject.
        """
        if cluster in self.members:
            return True
        self.anomalies[f"{what} for a cluster that is no member"] += 1
        return False

    def check_address(self, record: RoutedJob) -> None:
        """Record whether the only possible cluster of the job is a member."""
        job = record.job
        cluster = record.cluster or (job.origin.cluster if job.origin is not None else "")
        if cluster and cluster not in self.members:
            self.stranded[job.id] = None
        else:
            self.stranded.pop(job.id, None)

    def assign(self, record: RoutedJob, routed: JobRouted, *, at: int) -> None:
        """Assign the job to a cluster."""
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
        """Count the job of a cluster for its team and cluster, unless the cluster is not a member."""
        member = self.members.get(record.cluster)
        if member is None:
            return
        team = record.job.spec.team
        self.used[team] = self.used.get(team, 0) + record.milli
        member.jobs[record.job.id] = None
        member.milli += record.milli

    def unassign(self, record: RoutedJob) -> None:
        """Stop counting the job for its cluster, which stays on the record."""
        member = self.members.get(record.cluster)
        if member is None or record.phase.is_terminal:
            return
        team = record.job.spec.team
        left = self.used.get(team, 0) - record.milli  # jobs without GPUs count as 0: the team may have no entry
        if left:
            self.used[team] = left
        else:
            self.used.pop(team, None)
        del member.jobs[record.job.id]
        member.milli -= record.milli
        self.pending.mark_dirty()

    def take_back(self, record: RoutedJob) -> None:
        """Remove the job from its cluster; its requests, except to requeue it, are forwarded again to the next one."""
        self.unassign(record)
        record.cluster, record.lost_after_s, record.cancel_forwarded = "", 0.0, False
        requests = record.standing
        for request in record.wishes:
            requests = with_pending(requests, request)
        record.wishes, record.standing, record.requeue = requests, (), None
        if record.standing_edit is not None:
            record.edit = with_edit(record.standing_edit, record.edit or record.standing_edit)
            record.standing_edit = None
        self.check_address(record)

    def end(self, record: RoutedJob, phase: Phase) -> None:
        """End the job; drop the oldest ended jobs."""
        self.unassign(record)
        record.phase, record.wishes, record.standing, record.reroute = phase, (), (), None
        record.requeue = record.edit = record.standing_edit = None
        self.pending.remove(record.job.id)
        self.ended[record.job.id] = None
        self.dirty.pop(record.job.id, None)
        self.stranded.pop(record.job.id, None)
        while len(self.ended) > ENDED_KEPT:
            oldest = next(iter(self.ended))
            del self.ended[oldest], self.jobs[oldest]
