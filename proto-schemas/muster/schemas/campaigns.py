"""Views of campaigns and their previews: `GET /v1/campaigns`, `muster upgrade status|plan`."""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, Text, Wire
from muster.schemas.facts.upgrade import CampaignEnded, CampaignSpec

TURNS_MAX = 4_096
CAMPAIGNS_MAX = 128


class AskCampaigns(Wire):
    """Question `campaigns`. name: one campaign, with its nodes; "": all, without nodes."""

    name: str = ""


class TurnView(Wire):
    """One node of a campaign. step: its state, entered at `since`. turn_at: planned time of its turn, 0 without one.

    waits_for: the job whose end it waits for. detail: as text: the failure, or the reason without a turn.
    """

    node: str
    step: str
    since: InstantNs = 0
    turn_at: InstantNs = 0
    waits_for: str = ""
    detail: Text = ""
    attempt: int = 1
    cordoned_by: str = ""


class CampaignView(Wire):
    """One campaign. state: going, paused, stopped, aborting or ended; reason: why. steps: number of nodes at each step.

    next_at: when the next node is taken; ends_at: planned end of the last one; both 0 if unknown. without_turn:
    number of nodes that cannot get a turn now. out_of_use, out_of_use_most: of the selected nodes, now and at most.
    nodes: only for a campaign that was requested by name.
    """

    name: str
    cluster: str = ""
    spec: CampaignSpec
    principal: str = ""
    state: str
    reason: Text = ""
    accepted_at: InstantNs = 0
    ended_at: InstantNs = 0
    steps: dict[str, int] = Field(default_factory=dict)
    next_at: InstantNs = 0
    ends_at: InstantNs = 0
    without_turn: int = 0
    out_of_use: int = 0
    out_of_use_most: int = 0
    gpu_hours_lost: float = 0.0
    failed_nodes: tuple[str, ...] = ()
    ended: CampaignEnded | None = None
    nodes: Annotated[tuple[TurnView, ...], Field(max_length=TURNS_MAX)] = ()


class CampaignsAnswer(Wire):
    """Answer of `campaigns`: active campaigns, then ended ones, the newest first."""

    campaigns: Annotated[tuple[CampaignView, ...], Field(max_length=CAMPAIGNS_MAX)] = ()


class AskPreview(Wire):
    """Question `preview`: the result of a campaign that starts now."""

    spec: CampaignSpec


class Course(Wire):
    """One simulated way to upgrade the nodes. way: "campaign", "naive drain" or "cordon and wait".

    ends_at: end of the last node, 0: not within the simulated time. jobs_killed: stopped before their end;
    jobs_moved: stopped after a checkpoint, as they allow. gpu_hours_lost: idle_gpu_hours of unused nodes, and
    redone_gpu_hours of work that must be repeated.
    """

    way: str
    ends_at: InstantNs = 0
    jobs_killed: int = 0
    jobs_moved: int = 0
    gpu_hours_lost: float = 0.0
    idle_gpu_hours: float = 0.0
    redone_gpu_hours: float = 0.0


class CampaignPreview(Wire):
    """Answer of `preview`. field, problem: why it would be refused, "" if it is accepted. nodes: selected ones.
    at_version: of those, skipped; without_turn: that could not be taken now. courses: the campaign first, then the
    alternatives. turns: in their order."""

    cluster: str = ""
    at: InstantNs = 0
    field: str = ""
    problem: Text = ""
    nodes: int = 0
    at_version: int = 0
    without_turn: int = 0
    courses: tuple[Course, ...] = ()
    turns: Annotated[tuple[TurnView, ...], Field(max_length=TURNS_MAX)] = ()


class AskCampaignCheck(Wire):
    """Question `campaign-check`: whether this request is accepted. spec: of a start. ask: pause, resume, abort."""

    name: str
    ask: str
    spec: CampaignSpec | None = None


class CampaignCheckAnswer(Wire):
    """Answer of `campaign-check`. field, problem: why not; known: whether a campaign of that name exists."""

    field: str = ""
    problem: Text = ""
    known: bool = True
