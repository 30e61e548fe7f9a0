"""Facts of several clusters as one: their states, contact with them, who goes where, and jobs that are taken back."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, Name, Payload, Text, Wire
from muster.schemas.record import StateRecord
from muster.schemas.routing import CLUSTERS_MAX, RoutingPolicy

CONTACTS_MAX = 64
"""Summaries that a cluster remembers until one of them is answered; older ones count for nothing."""


class ClusterPhase(StrEnum):
    """Where a cluster stands in the federation.

    active: it gets jobs. draining: it gets none, what waits there is moved, what runs there finishes. drained: nothing
    is left there. lost: it was silent for so long that its jobs were given to others; it gets none until it answers.
    """

    ACTIVE = "active"
    DRAINING = "draining"
    DRAINED = "drained"
    LOST = "lost"


class ClusterDrainRequested(Payload):
    """`drain-requested` of a cluster, by a person. to: clusters that take its jobs, the first that can; none: as the
    rules say without it. Nothing that runs is ended.
    """

    principal: str
    reason: Text = ""
    to: Annotated[tuple[Name, ...], Field(max_length=CLUSTERS_MAX)] = ()


class ClusterResumeRequested(Payload):
    """`resume-requested` of a cluster, by a person: it gets jobs again."""

    principal: str
    reason: Text = ""


class ClusterMoved(Payload):
    """`draining`, `drained`, `resumed`, `lost`, `returned` of a cluster, by the federation; `drain-refused`,
    `resume-refused`: nothing changes.

    principal: who asked, "" if nobody did. to: as `drain-requested`. jobs: not ended there at that moment. reason: why,
    in words.
    """

    principal: str = ""
    reason: Text = ""
    to: Annotated[tuple[Name, ...], Field(max_length=CLUSTERS_MAX)] = ()
    jobs: int = 0


class ContactRenewed(Payload):
    """`contact-renewed` of a cluster: the federation has folded its summary of this number, and was alive after it.

    The cluster counts from when it wrote that summary, by its own clock: its jobs that may be given to others run until
    lost_after_s less margin_s later. The federation counts from this fact, by its own clock, and gives them to others
    lost_after_s and margin_s later. So the two never overlap while the clocks' rates differ by less than the margin
    allows, however old the messages are when they come.
    """

    number: Annotated[int, Field(ge=1)]
    lost_after_s: Annotated[float, Field(gt=0)]
    margin_s: Annotated[float, Field(ge=0)]


class ContactLost(Payload):
    """`contact-lost` of a cluster, by its agent: what may be given to others was told to end here, and nothing of that
    sort is started until contact was renewed. number: of the last summary that was answered, 0: none.
    """

    number: int = 0
    until: InstantNs = 0


class Heartbeat(Wire):
    """A summary that was written and may yet be answered. at: by the broker of the cluster's own log."""

    number: int
    at: InstantNs


class ContactState(Wire):
    """What a cluster knows of its contact with the federation, as `state-recorded` of a cluster has it.

    number, until: of the newest that was renewed, and until when its jobs may run by it. unanswered: newest last.
    lost: the agent has said so, and it was not renewed since. lost_after_s, margin_s: as renewed last. last: the
    greatest number that a summary had.
    """

    number: int = 0
    until: InstantNs = 0
    unanswered: tuple[Heartbeat, ...] = ()
    lost: bool = False
    lost_after_s: float = 0.0
    margin_s: float = 0.0
    last: int = 0


class JobRecalled(Payload):
    """`recall-forwarded` and `drop-forwarded` of a job: the federation wants this assignment back.

    recall: only if the job has not started; it is answered by `returned` or `return-refused`. drop: it was given to
    another cluster after this one was lost; whatever it is doing it ends there, and its end counts for nothing.
    """

    assignment: int
    reason: Text = ""


class JobReturned(Payload):
    """`returned` of a job, by the scheduler, and `job-returned` as copied: the cluster has no part in it any more.

    assignment: that is over. cluster, source_seq: of the copy, see `job-ended`.
    """

    assignment: int
    cluster: str = ""
    source_seq: int = 0


class JobReturnRefused(Payload):
    """`return-refused` of a job, by the scheduler, and `job-return-refused` as copied: it has started, or has ended.

    cluster, source_seq: of the copy, see `job-ended`.
    """

    assignment: int
    reason: Text = ""
    cluster: str = ""
    source_seq: int = 0


class JobRerouteRequested(Payload):
    """`reroute-requested` of a job that has not started, by a person. to: "": as the rules say now, but elsewhere."""

    principal: str
    reason: Text = ""
    to: str = ""


class JobRerouteRefused(Payload):
    """`reroute-refused`: it stays where it is. principal: who asked. reason: why not."""

    principal: str
    reason: Text


class RoutingChangeRequested(Payload):
    """`change-requested` of the routing, by a person: this policy shall count for jobs that are not routed yet.

    based_on: the version that it was made of; another one stands by now: it is refused. 0: whatever stands.
    """

    policy: RoutingPolicy
    principal: str
    based_on: Annotated[int, Field(ge=0)] = 0


class RoutingChanged(Payload):
    """`changed` of the routing: version, from 1, counts the changes; 0 is what the settings say."""

    policy: RoutingPolicy
    version: Annotated[int, Field(ge=1)]
    principal: str


class RoutingChangeRefused(Payload):
    """`change-refused` of the routing: nothing changes. field, reason: what is wrong with which."""

    field: str
    reason: Text
    principal: str = ""


class RoutingWish(Wire):
    """A change of the routing that was asked for by `fact` and is not answered."""

    fact: str
    asked: RoutingChangeRequested
    trace: str = ""


class RoutingState(Payload):
    """`state-recorded` of the routing. policy: None while nobody changed what the settings say."""

    policy: RoutingPolicy | None = None
    version: int = 0
    principal: str = ""
    wishes: tuple[RoutingWish, ...] = ()


class ClusterWish(Wire):
    """A drain or a resume of a cluster that was asked for by `fact` and is not answered. drain: else a resume."""

    fact: str
    cluster: str = ""
    drain: ClusterDrainRequested | None = None
    resume: ClusterResumeRequested | None = None
    trace: str = ""


@dataclass(slots=True)
class MemberState(StateRecord):
    """`state-recorded` of a member of the federation: what is known of a cluster beside its summary."""

    phase: ClusterPhase = ClusterPhase.ACTIVE
    since: InstantNs = 0
    """When it came into this phase."""
    fact: str = ""
    """Id of the fact that brought it there."""
    drain: ClusterDrainRequested | None = None
    """While it drains or is drained."""
    answered: int = 0
    """Number of the summary that contact was renewed for last."""
    answered_at: InstantNs = 0
    granted_until: InstantNs = 0
    """Until then its jobs may run, by all renewals, by the federation's clock and with the margin."""
    confirmed: int = 0
    """Number of the newest renewal that the cluster itself said it has."""
    confirmed_at: InstantNs = 0
    """When that was renewed."""
    renewals: tuple[Heartbeat, ...] = ()
    """Those that it has not confirmed, oldest first."""
    returned_at: InstantNs = 0
    """When it came back last, after it was lost."""
    freed_milli_per_s: float = 0.0
    """Milli-GPUs that come free there in a second, smoothed."""
    freed_at: InstantNs = 0
    """When that was reckoned last."""
    wishes: tuple[ClusterWish, ...] = ()
    """Requests that were not answered."""


class Assignment(Wire):
    """One of the assignments that a job has or had: which cluster, and the how many-eth."""

    cluster: Name
    number: int


class Reroute(Wire):
    """A job is being moved: who or what asked for it, and where to.

    to: clusters that may take it, in this order; none: as the rules say, without where it is. forwarded: the cluster
    was asked to give it back. principal: "" if a cluster is drained. refused: why it stays, "" until that was said.
    left: that gave it back, "" before: others come first where nobody said which.
    """

    fact: str
    to: tuple[Name, ...] = ()
    principal: str = ""
    reason: Text = ""
    forwarded: bool = False
    refused: Text = ""
    left: str = ""
