"""Facts of the federation: states of clusters, contact with them, routing, and recalled jobs."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, Name, Payload, Text, Wire
from muster.schemas.record import StateRecord
from muster.schemas.routing import CLUSTERS_MAX, RoutingPolicy

CONTACTS_MAX = 64
"""Maximum number of summaries without an answer that a cluster remembers; older ones are dropped."""


class ClusterPhase(StrEnum):
    """State of a cluster in the federation. active: jobs are routed to it. draining: no jobs are routed to it,
    waiting jobs are rerouted, running jobs finish. drained: no job is left. lost: it was silent for so long that its
    jobs were rerouted; no jobs are routed to it until it answers."""

    ACTIVE = "active"
    DRAINING = "draining"
    DRAINED = "drained"
    LOST = "lost"


class ClusterDrainRequested(Payload):
    """`drain-requested` of a cluster, by an operator. No running job is ended. to: target clusters in order of
    preference; none: the routing rules decide."""

    principal: str
    reason: Text = ""
    to: Annotated[tuple[Name, ...], Field(max_length=CLUSTERS_MAX)] = ()


class ClusterResumeRequested(Payload):
    """`resume-requested` of a cluster, by an operator: jobs are routed to it again."""

    principal: str
    reason: Text = ""


class ClusterMoved(Payload):
    """`draining`, `drained`, `resumed`, `lost`, `returned`, `drain-refused`, `resume-refused` of a cluster.

    principal: the requester, "" for none. to: as in `drain-requested`. jobs: number of live jobs there at that
    moment. reason: as text.
    """

    principal: str = ""
    reason: Text = ""
    to: Annotated[tuple[Name, ...], Field(max_length=CLUSTERS_MAX)] = ()
    jobs: int = 0


class ContactRenewed(Payload):
    """`contact-renewed` of a cluster: the federation was alive after it folded the summary of this number.

    The cluster counts from the time when it wrote that summary, by its own clock: jobs that may be rerouted run
    until lost_after_s minus margin_s later. The federation counts from this fact, by its own clock, and reroutes
    the jobs lost_after_s plus margin_s later. So a job never runs in two clusters while the rates of the clocks
    differ by less than the margin allows, however late the messages arrive.
    """

    number: Annotated[int, Field(ge=1)]
    lost_after_s: Annotated[float, Field(gt=0)]
    margin_s: Annotated[float, Field(ge=0)]


class ContactLost(Payload):
    """`contact-lost` of a cluster, by its agent: jobs that may be rerouted were told to end, and none is started.
    This holds until contact is renewed. number: of the last summary that was answered, 0 for none."""

    number: int = 0
    until: InstantNs = 0


class Heartbeat(Wire):
    """A summary that may still be answered. at: time stamp of the broker of the cluster's own log."""

    number: int
    at: InstantNs


class ContactState(Wire):
    """A cluster's contact with the federation, as in `state-recorded` of a cluster.

    number, until: of the newest renewal, and until when jobs may run by it. unanswered: newest last. lost: the
    agent has reported the loss, and contact was not renewed since. lost_after_s, margin_s: of the last renewal.
    last: the greatest number of a summary.
    """

    number: int = 0
    until: InstantNs = 0
    unanswered: tuple[Heartbeat, ...] = ()
    lost: bool = False
    lost_after_s: float = 0.0
    margin_s: float = 0.0
    last: int = 0


class JobRecalled(Payload):
    """`recall-forwarded` and `drop-forwarded` of a job: the federation recalls this assignment.

    recall: only if the job has not started; the answer is `returned` or `return-refused`. drop: the job was
    rerouted after this cluster was lost; it ends there in any phase, and its end is ignored.
    """

    assignment: int
    reason: Text = ""


class JobReturned(Payload):
    """`returned` of a job, by the scheduler, and `job-returned` as copied: the cluster has handed the job back.

    assignment: the one that is over. cluster, source_seq: of the copy, see `job-ended`.
    """

    assignment: int
    cluster: str = ""
    source_seq: int = 0


class JobReturnRefused(Payload):
    """`return-refused` of a job, by the scheduler, and `job-return-refused` as copied: the job has started or ended.

    cluster, source_seq: of the copy, see `job-ended`.
    """

    assignment: int
    reason: Text = ""
    cluster: str = ""
    source_seq: int = 0


class JobRerouteRequested(Payload):
    """`reroute-requested` of a job that has not started. to: ""; the routing rules choose another cluster."""

    principal: str
    reason: Text = ""
    to: str = ""


class JobRerouteRefused(Payload):
    """`reroute-refused`: the job stays in its cluster. principal: the requester. reason: why."""

    principal: str
    reason: Text


class RoutingChangeRequested(Payload):
    """`change-requested` of the routing: this policy shall apply to jobs that are not routed yet.

    based_on: the version that the policy was derived from; refused if another version applies. 0: no check.
    """

    policy: RoutingPolicy
    principal: str
    based_on: Annotated[int, Field(ge=0)] = 0


class RoutingChanged(Payload):
    """`changed` of the routing. version: counts the changes from 1; 0 is the policy of the settings."""

    policy: RoutingPolicy
    version: Annotated[int, Field(ge=1)]
    principal: str


class RoutingChangeRefused(Payload):
    """`change-refused` of the routing: no change was applied. field, reason: the wrong field, and why."""

    field: str
    reason: Text
    principal: str = ""


class PendingRoutingChange(Wire):
    """A change of the routing that was requested by `fact` and is not answered."""

    fact: str
    asked: RoutingChangeRequested
    trace: str = ""


class RoutingState(Payload):
    """`state-recorded` of the routing. policy: None while the policy of the settings applies."""

    policy: RoutingPolicy | None = None
    version: int = 0
    principal: str = ""
    wishes: tuple[PendingRoutingChange, ...] = ()


class PendingClusterChange(Wire):
    """A drain or resume of a cluster that was requested by `fact` and is not answered. Exactly one of both is set."""

    fact: str
    cluster: str = ""
    drain: ClusterDrainRequested | None = None
    resume: ClusterResumeRequested | None = None
    trace: str = ""


@dataclass(slots=True)
class MemberState(StateRecord):
    """`state-recorded` of a member of the federation: the state of a cluster besides its summary."""

    phase: ClusterPhase = ClusterPhase.ACTIVE
    since: InstantNs = 0
    """When it entered this phase."""
    fact: str = ""
    """Id of the fact that changed the phase."""
    drain: ClusterDrainRequested | None = None
    """The request, while it is draining or drained."""
    answered: int = 0
    """Number of the summary of the newest renewal."""
    answered_at: InstantNs = 0
    granted_until: InstantNs = 0
    """Until then its jobs may run by all renewals, by the federation's clock and with the margin."""
    confirmed: int = 0
    """Number of the newest renewal that the cluster has confirmed."""
    confirmed_at: InstantNs = 0
    """When that renewal was made."""
    renewals: tuple[Heartbeat, ...] = ()
    """Renewals without confirmation, oldest first."""
    returned_at: InstantNs = 0
    """When it last rejoined after it was lost."""
    freed_milli_per_s: float = 0.0
    """GPUs that become free per second, in thousandths, smoothed."""
    freed_at: InstantNs = 0
    """When that was last computed."""
    wishes: tuple[PendingClusterChange, ...] = ()
    """Requests without an answer."""


class Assignment(Wire):
    """One assignment of a job to a cluster; `number` counts the assignments of the job."""

    cluster: Name
    number: int


class Reroute(Wire):
    """A reroute of a job that is under way. to: target clusters in order of preference; none: the routing rules
    choose another cluster. forwarded: the cluster was asked to hand the job back. principal: "" for the drain of a
    cluster. refused: why the job stays, "" until that is reported. left: the cluster that handed it back, "" before;
    other clusters are preferred unless `to` names one."""

    fact: str
    to: tuple[Name, ...] = ()
    principal: str = ""
    reason: Text = ""
    forwarded: bool = False
    refused: Text = ""
    left: str = ""
