"""Facts of upgrade campaigns: nodes are upgraded in turn, while jobs run on the others."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from muster.schemas.base import NEVER, InstantNs, Label, Name, Payload, RecordedInstant, Text, Wire
from muster.schemas.facts.node import RunningJobs
from muster.schemas.facts.operations import (
    ACTION_S_MAX,
    COMMAND_MAX,
    ActionOutcome,
    NodeAction,
)
from muster.schemas.record import StateRecord

SELECTED_MAX = 4_096
WINDOWS_MAX = 32
FAILED_TOLD_MAX = 64
DAY_MIN = 24 * 60
NOT_UPGRADES = frozenset({NodeAction.RESET, NodeAction.REPLACE})

Share = Annotated[str, StringConstraints(pattern=r"^([1-9][0-9]{0,5}|([1-9][0-9]?|100)%)$")]
"""A number of nodes ("10") or a percentage of the selected nodes ("5%"), rounded down, but at least one node."""


class Window(Wire):
    """A weekly window in which nodes may be upgraded, in UTC. days: 0 is Monday; empty: every day. from_min, to_min:
    minutes of the day; a window that ends before it begins ends on the next day."""

    days: Annotated[tuple[Annotated[int, Field(ge=0, le=6)], ...], Field(max_length=7)] = ()
    from_min: Annotated[int, Field(ge=0, lt=DAY_MIN)] = 0
    to_min: Annotated[int, Field(ge=0, le=DAY_MIN)] = DAY_MIN

    @model_validator(mode="after")
    def _has_a_length(self) -> Self:
        if self.from_min == self.to_min:
            raise ValueError(f"to_min: the window begins and ends at minute {self.from_min}: give it a length")
        return self


class NodeSelection(Wire):
    """A selection of nodes. Each given field must match; none given: all nodes. nodes: by name. groups: node groups.

    models: of their GPUs. labels: all of them must match.
    """

    nodes: Annotated[tuple[Label, ...], Field(max_length=SELECTED_MAX)] = ()
    groups: Annotated[tuple[Name, ...], Field(max_length=SELECTED_MAX)] = ()
    models: Annotated[tuple[Label, ...], Field(max_length=64)] = ()
    labels: Annotated[dict[Label, Text], Field(max_length=64)] = Field(default_factory=dict)


class CampaignSpec(Wire):
    """An upgrade of many nodes.

    component: what is upgraded; `command` runs `command`, `reboot` restarts. version: target version; nodes that
    have it are skipped. select: which nodes; matching nodes that join later are included. max_unavailable: how many
    of the selected nodes may be out of service at a time, for any reason. parallel: how many are upgraded at a
    time; 0: as many as may be out of service. per_rack, per_group: how many may be out of service in one rack, in
    one node group; None: no separate limit. windows: when nodes may be taken; none: at any time. failures_max:
    number of failed nodes after which no further node is taken. running: treatment of jobs on a node whose turn has
    come: finish, or move, for preemptible jobs that checkpoint; no other job is ever stopped. suite: checks after
    the upgrade, by name. takes_s: planned time of one node. action_limit_s: timeout of the upgrade of a node.
    roll_back: whether a failed node is brought to another version: roll_back_to, or with "" its former version.
    starts_at: no node is taken before; 0: at once.
    """

    name: Name
    component: NodeAction
    version: Annotated[str, StringConstraints(max_length=128)] = ""
    command: Annotated[tuple[Text, ...], Field(max_length=COMMAND_MAX)] = ()
    select: NodeSelection = NodeSelection()
    max_unavailable: Share = "5%"
    parallel: Annotated[int, Field(ge=0, le=SELECTED_MAX)] = 0
    per_rack: Share | None = None
    per_group: Share | None = None
    windows: Annotated[tuple[Window, ...], Field(max_length=WINDOWS_MAX)] = ()
    failures_max: Annotated[int, Field(ge=1, le=SELECTED_MAX)] = 1
    running: RunningJobs = RunningJobs.FINISH
    suite: Name = "validate"
    takes_s: Annotated[float, Field(gt=0, le=ACTION_S_MAX)] = 1200.0
    action_limit_s: Annotated[float, Field(gt=0, le=ACTION_S_MAX)] = 1800.0
    roll_back: bool = False
    roll_back_to: Annotated[str, StringConstraints(max_length=128)] = ""
    starts_at: InstantNs = 0
    reason: Text = ""

    @model_validator(mode="after")
    def _says_what_to_do(self) -> Self:
        component = self.component
        if component in NOT_UPGRADES:
            raise ValueError(f"component: {component.value} is a repair, not an upgrade: name what to upgrade")
        if (component is NodeAction.COMMAND) != bool(self.command):
            raise ValueError("command: give one with the component `command` only")
        versioned = component not in (NodeAction.COMMAND, NodeAction.REBOOT)
        if versioned != bool(self.version):
            said = "name the version" if versioned else "has no version"
            raise ValueError(
                f"version: {component.value} {said}" if not versioned else f"version: {said} to upgrade to"
            )
        if self.running is RunningJobs.REQUEUE:
            raise ValueError("running: an upgrade stops only jobs that allow it: use finish or move")
        if self.roll_back and not versioned:
            raise ValueError(f"roll_back: {component.value} has no version to roll back to: leave it out")
        return self


class CampaignStartRequested(Payload):
    """`start-requested`, `start-forwarded`: a request to upgrade nodes. cluster: "" for every cluster."""

    spec: CampaignSpec
    principal: str
    cluster: str = ""


class CampaignChangeRequested(Payload):
    """`pause-`, `resume-` and `abort-requested`, and as forwarded. cluster: "" for every cluster.

    pause: no further node is taken, and nodes that wait for their jobs become schedulable again; upgrades under way
    complete. resume: after a pause or a stop; failed nodes are tried again. abort: as a pause, without a resume.
    """

    principal: str
    reason: Text = ""
    cluster: str = ""


class CampaignAsk(StrEnum):
    """Kinds of requests about campaigns."""

    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    ABORT = "abort"


class CampaignAccepted(Payload):
    """`accepted`: the campaign starts here. nodes: number selected now. at_version: how many of them are skipped."""

    spec: CampaignSpec
    principal: str = ""
    nodes: int = 0
    at_version: int = 0


class CampaignRefused(Payload):
    """`refused`: the request was refused. field: of the spec, "" for none."""

    ask: CampaignAsk
    field: str = ""
    reason: Text
    principal: str = ""


class CampaignChanged(Payload):
    """`paused`, `resumed`, `aborted`: as requested."""

    principal: str = ""
    reason: Text = ""


class CampaignStopped(Payload):
    """`stopped`: too many nodes failed, or health's brake is on; no node is taken until an operator resumes it."""

    reason: Text
    failed: Annotated[tuple[Label, ...], Field(max_length=FAILED_TOLD_MAX)] = ()


class CampaignEnded(Payload):
    """`ended`: every node had its turn, or the campaign was aborted and nothing is under way any more.

    done, failed, rolled_back, left_out: numbers of nodes. gpu_hours_lost: unused GPU-hours of nodes that the
    campaign kept. failed_nodes: nodes that stay drained until an operator resumes them.
    """

    aborted: bool = False
    done: int = 0
    failed: int = 0
    rolled_back: int = 0
    left_out: int = 0
    took_s: float = 0.0
    gpu_hours_lost: float = 0.0
    failed_nodes: Annotated[tuple[Label, ...], Field(max_length=FAILED_TOLD_MAX)] = ()
    reason: Text = ""


class Step(StrEnum):
    """State of a node in its turn. Only `done`, `failed` and `rolled-back` are final. planned: it has a turn, or
    waits for one. cordoned: its turn has come, and no new jobs start there. waiting-for-jobs: jobs still run.
    drained: the scheduler has drained it. rolling-back: a failed node is brought to its former version."""

    PLANNED = "planned"
    CORDONED = "cordoned"
    WAITING = "waiting-for-jobs"
    DRAINED = "drained"
    UPGRADING = "upgrading"
    VALIDATING = "validating"
    ROLLING_BACK = "rolling-back"
    DONE = "done"
    FAILED = "failed"
    ROLLED_BACK = "rolled-back"

    @property
    def is_end(self) -> bool:
        """Return whether the turn is over."""
        return self in (Step.DONE, Step.FAILED, Step.ROLLED_BACK)

    @property
    def is_taken(self) -> bool:
        """Return whether the campaign has the node: from drained to the end of its turn."""
        return self in (Step.DRAINED, Step.UPGRADING, Step.VALIDATING, Step.ROLLING_BACK)


class NodeStepped(Payload):
    """`upgrade-stepped` of a node: the next step of its turn; planned maintenance, not a fault. attempt: of this
    node in the campaign, from 1. request_id: of the request made with this step, "" for none. detail: as text: the
    job it waits for, or the failure. cordoned_by: who had cordoned it before; it will be cordoned again."""

    campaign: Name
    step: Step
    attempt: int = 1
    request_id: str = ""
    detail: Text = ""
    cordoned_by: str = ""


class PendingCampaignChange(Wire):
    """A request without an answer. fact: id of its fact; spec: of a start."""

    fact: str
    name: Name
    ask: CampaignAsk
    spec: CampaignSpec | None = None
    principal: str = ""
    reason: Text = ""
    cluster: str = ""
    trace: str = ""


@dataclass(slots=True)
class CampaignState(StateRecord):
    """`state-recorded` of a campaign, by the upgrader."""

    spec: CampaignSpec | None = None
    """None while it is only requested."""
    number: int = 0
    """The sequence of `accepted`, which distinguishes it from earlier campaigns of its name."""
    principal: str = ""
    accepted_at: RecordedInstant = NEVER
    fact: str = ""
    """Id of `accepted`."""
    trace: str = ""
    paused: str = ""
    """Why it is paused; "" while it is not."""
    stopped: str = ""
    """Why it is stopped; "" while it is not."""
    aborted: str = ""
    """Why it is aborted; "" while it is not."""
    failures: int = 0
    """Number of failed nodes so far."""
    failures_forgiven: int = 0
    """Number of failures before the last resume."""
    ended: CampaignEnded | None = None
    """The result of an ended campaign."""
    ended_at: RecordedInstant = NEVER
    wishes: tuple[PendingCampaignChange, ...] = ()
    """Set only in checkpoints: the upgrader keeps unanswered requests together."""
    last_fact: str = ""
    """Id of the newest fact that changed it."""


@dataclass(slots=True)
class TurnState(StateRecord):
    """One node's turn in one campaign, as the upgrader records it."""

    campaign: Name
    step: Step = Step.PLANNED
    attempt: int = 1
    asks: int = 0
    """Number of drain requests for the node."""
    number: int = 0
    """Sequence of the fact with which the turn began."""
    since: RecordedInstant = NEVER
    """When it entered this step."""
    request_id: str = ""
    """Id of the drain request in effect; "" for none."""
    from_at: InstantNs = 0
    """Time from which the newest request asked for the node."""
    running: RunningJobs = RunningJobs.FINISH
    """Treatment of running jobs in the newest request."""
    is_withheld: bool = False
    """The drain request was answered."""
    work_id: str = ""
    """Id of the action or checks under way."""
    outcome: ActionOutcome | None = None
    """Their outcome; None while they are under way."""
    version_before: str = ""
    """Version of the component at the start of its turn."""
    detail: Text = ""
    """As text: the job it waits for, or the failure."""
    cordoned_by: str = ""
    """Who had cordoned it before."""
    counted_at: InstantNs = 0
    """Time up to which `lost_gpu_s` is counted."""
    lost_gpu_s: float = 0.0
    """Unused GPU-seconds while the request was in effect."""
    freed: bool = False
    """It failed, and an operator returned it to service."""
    last_fact: str = ""
    """Id of the newest fact that changed it."""


class NodeTurnsState(Payload):
    """`state-recorded` of a node, by the upgrader: its turns in campaigns; of ended campaigns only failed turns."""

    turns: tuple[TurnState, ...] = ()
