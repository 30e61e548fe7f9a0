"""Facts of upgrade campaigns: nodes are brought to another version, one turn each, while jobs run on the others."""

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
"""A number of nodes ("10") or a part of those selected ("5%"), which is rounded down, but is at least one node."""


class Window(Wire):
    """When nodes may be taken, every week, in UTC. days: 0 is Monday; empty: every day. from_min, to_min: minutes of
    the day; a window that ends before it begins ends on the next day.
    """

    days: Annotated[tuple[Annotated[int, Field(ge=0, le=6)], ...], Field(max_length=7)] = ()
    from_min: Annotated[int, Field(ge=0, lt=DAY_MIN)] = 0
    to_min: Annotated[int, Field(ge=0, le=DAY_MIN)] = DAY_MIN

    @model_validator(mode="after")
    def _has_a_length(self) -> Self:
        if self.from_min == self.to_min:
            raise ValueError(f"to_min: the window ends when it begins, at minute {self.from_min}: give it a length")
        return self


class NodeSelection(Wire):
    """Which nodes. Each field that is given must fit; none given: all. nodes: by name. groups: of node groups.

    models: of their GPUs. labels: all of them, as nodes were described with.
    """

    nodes: Annotated[tuple[Label, ...], Field(max_length=SELECTED_MAX)] = ()
    groups: Annotated[tuple[Name, ...], Field(max_length=SELECTED_MAX)] = ()
    models: Annotated[tuple[Label, ...], Field(max_length=64)] = ()
    labels: Annotated[dict[Label, Text], Field(max_length=64)] = Field(default_factory=dict)


class CampaignSpec(Wire):
    """An upgrade of many nodes.

    component: what is upgraded; `command` runs `command`, `reboot` restarts. version: that it shall have then; nodes
    that have it are left alone. select: which nodes; those that join later and fit are taken, too. max_unavailable: so
    many of the selected nodes may be out of use at one time, whoever took them out. parallel: so many are upgraded at
    one time; 0: as many as may be out of use. per_rack, per_group: out of use in one rack, in one node group; None: no
    limit of its own. windows: a node is taken within one of them; none: at any time. failures_max: after so many nodes
    failed no further one is taken. running: what becomes of jobs on a node whose turn has come: finish, or move, for
    those that checkpoint and may be preempted; none is ever stopped otherwise. suite: checks after the upgrade, by
    name. takes_s: of one node, as it is planned. action_limit_s: then the upgrade of a node has failed. roll_back:
    whether a node that failed is brought to another version again: roll_back_to, or with "" the one that it had.
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
            raise ValueError("command: give one with the component `command`, and only there")
        versioned = component not in (NodeAction.COMMAND, NodeAction.REBOOT)
        if versioned != bool(self.version):
            said = "name the version" if versioned else "has no version"
            raise ValueError(
                f"version: {component.value} {said}" if not versioned else f"version: {said} to upgrade to"
            )
        if self.running is RunningJobs.REQUEUE:
            raise ValueError("running: an upgrade stops no job that does not allow it: say finish or move")
        if self.roll_back and not versioned:
            raise ValueError(f"roll_back: {component.value} has no version to go back to: leave it out")
        return self


class CampaignStartRequested(Payload):
    """`start-requested`, `start-forwarded`: somebody wants nodes upgraded. cluster: "" for every cluster."""

    spec: CampaignSpec
    principal: str
    cluster: str = ""


class CampaignChangeRequested(Payload):
    """`pause-`, `resume-` and `abort-requested`, and what federation forwards. cluster: "" for every cluster.

    pause: no further node is taken, those that wait for jobs are given back; what is being upgraded goes on to its end.
    resume: after a pause or a stop; nodes that failed are tried again. abort: as a pause, and it does not go on.
    """

    principal: str
    reason: Text = ""
    cluster: str = ""


class CampaignAsk(StrEnum):
    """What people ask of campaigns."""

    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    ABORT = "abort"


class CampaignAccepted(Payload):
    """`accepted`: the campaign goes on from here. nodes: selected now. at_version: of them, those left alone."""

    spec: CampaignSpec
    principal: str = ""
    nodes: int = 0
    at_version: int = 0


class CampaignRefused(Payload):
    """`refused`: what was asked cannot be. field: of the spec, "" for none."""

    ask: CampaignAsk
    field: str = ""
    reason: Text
    principal: str = ""


class CampaignChanged(Payload):
    """`paused`, `resumed`, `aborted`: as a person asked."""

    principal: str = ""
    reason: Text = ""


class CampaignStopped(Payload):
    """`stopped`: too many nodes failed, or health's brake is on; no further node is taken until a person resumes."""

    reason: Text
    failed: Annotated[tuple[Label, ...], Field(max_length=FAILED_TOLD_MAX)] = ()


class CampaignEnded(Payload):
    """`ended`: every node had its turn, or the campaign was aborted and nothing is under way any more.

    done, failed, rolled_back, left_out: nodes. gpu_hours_lost: of GPUs that nobody used while the campaign kept their
    node. failed_nodes: those that are still withheld, until a person resumes them.
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
    """Where a node stands in its turn. Only `done`, `failed` and `rolled-back` are ends.

    planned: it has a turn, or waits for one. cordoned: its turn has come, nothing new starts there. waiting-for-jobs:
    some still run. drained: the scheduler gave it. rolling-back: a failed one is brought to the version before.
    """

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
        """True when the turn is over."""
        return self in (Step.DONE, Step.FAILED, Step.ROLLED_BACK)

    @property
    def is_taken(self) -> bool:
        """True while the node is in the campaign's hands: from drained to the end of its turn."""
        return self in (Step.DRAINED, Step.UPGRADING, Step.VALIDATING, Step.ROLLING_BACK)


class NodeStepped(Payload):
    """`upgrade-stepped` of a node: one step further in its turn; planned maintenance, and no fault.

    attempt: of this node in the campaign, from 1. request_id: of what was asked with this step, "" for none. detail: in
    words: for whom it waits, why it failed. cordoned_by: who cordoned it before, who will find it cordoned again.
    """

    campaign: Name
    step: Step
    attempt: int = 1
    request_id: str = ""
    detail: Text = ""
    cordoned_by: str = ""


class CampaignWish(Wire):
    """A request that was not yet answered. fact: which asked; spec: of a start."""

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
    """None while it was only asked for."""
    number: int = 0
    """The sequence of `accepted`, which tells it from earlier ones of its name."""
    principal: str = ""
    accepted_at: RecordedInstant = NEVER
    fact: str = ""
    """Id of `accepted`."""
    trace: str = ""
    paused: str = ""
    """Why it is; "" while it is not."""
    stopped: str = ""
    """Why it is; "" while it is not."""
    aborted: str = ""
    """Why it is; "" while it is not."""
    failures: int = 0
    """Of nodes so far."""
    failures_forgiven: int = 0
    """Of these, before the last resume."""
    ended: CampaignEnded | None = None
    """Of one that is over."""
    ended_at: RecordedInstant = NEVER
    wishes: tuple[CampaignWish, ...] = ()
    """Set only in checkpoints: the upgrader keeps requests without an answer together."""
    last_fact: str = ""
    """Id of the newest fact that moved it."""


@dataclass(slots=True)
class TurnState(StateRecord):
    """One node's turn in one campaign, as the upgrader keeps it."""

    campaign: Name
    step: Step = Step.PLANNED
    attempt: int = 1
    asks: int = 0
    """How often the node was asked to be withheld."""
    number: int = 0
    """Of the fact by which the turn began."""
    since: RecordedInstant = NEVER
    """When it came to this step."""
    request_id: str = ""
    """Of the request to withhold that stands; "" for none."""
    from_at: InstantNs = 0
    """From when on the node was asked for last."""
    running: RunningJobs = RunningJobs.FINISH
    """What becomes of jobs there, as asked last."""
    is_withheld: bool = False
    """The request was answered."""
    work_id: str = ""
    """Of the action or checks under way."""
    outcome: ActionOutcome | None = None
    """Of these; None while they go on."""
    version_before: str = ""
    """Of the component when its turn came."""
    detail: Text = ""
    """In words: for whom it waits, why it failed."""
    cordoned_by: str = ""
    """Who cordoned it before."""
    counted_at: InstantNs = 0
    """Up to when `lost_gpu_s` is counted."""
    lost_gpu_s: float = 0.0
    """GPU-seconds that nobody used while the request stood."""
    freed: bool = False
    """It failed, and a person gave it back."""
    last_fact: str = ""
    """Id of the newest fact that moved it."""


class NodeTurnsState(Payload):
    """`state-recorded` of a node, by the upgrader: its turns in campaigns, of those that are over the failed ones."""

    turns: tuple[TurnState, ...] = ()
