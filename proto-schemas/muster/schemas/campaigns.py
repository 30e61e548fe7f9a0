"""How campaigns are shown, and what one would come to: `GET /v1/campaigns`, `muster upgrade status|plan`."""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, Text, Wire
from muster.schemas.facts.upgrade import CampaignEnded, CampaignSpec

TURNS_MAX = 4_096
CAMPAIGNS_MAX = 128


class AskCampaigns(Wire):
    """To `campaigns`. name: one of them, with its nodes; "": all, without."""

    name: str = ""


class TurnView(Wire):
    """One node of a campaign. step: where it stands, since then. turn_at: when its turn is planned, 0: it has none yet.

    waits_for: the job for whose end. detail: in words: what failed, or what keeps it from its turn.
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
    """One campaign. state: going, paused, stopped, aborting or ended; reason: why. steps: nodes at each step.

    next_at: when the next node is taken; ends_at: when the last one is done as it is planned now; both 0 if nobody
    knows. without_turn: nodes that nobody can give one now. out_of_use, out_of_use_most: of the selected nodes, now and
    at the most. nodes: of one campaign that was asked for by name.
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
    """To `campaigns`: those that go on, then those that are over, the newest first."""

    campaigns: Annotated[tuple[CampaignView, ...], Field(max_length=CAMPAIGNS_MAX)] = ()


class AskPreview(Wire):
    """To `preview`: what would a campaign come to, if it began now?"""

    spec: CampaignSpec


class Course(Wire):
    """One way to upgrade the nodes, simulated. way: "campaign", "naive drain" or "cordon and wait".

    ends_at: when the last node is done, 0: not within what was simulated. jobs_killed: stopped though they had not
    finished; jobs_moved: stopped after a checkpoint, which they allow. gpu_hours_lost: idle_gpu_hours, in which nobody
    could use a node, and redone_gpu_hours, of work that has to be done again.
    """

    way: str
    ends_at: InstantNs = 0
    jobs_killed: int = 0
    jobs_moved: int = 0
    gpu_hours_lost: float = 0.0
    idle_gpu_hours: float = 0.0
    redone_gpu_hours: float = 0.0


class CampaignPreview(Wire):
    """To `preview`. field, problem: why it would be refused, "" if it would not. nodes: selected; at_version: of those,
    left alone; without_turn: that could not be taken now. courses: the campaign first, then what it is compared with.
    turns: in their order.
    """

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
    """To `campaign-check`: may this be started, or asked of a campaign? spec: of a start. ask: pause, resume, abort."""

    name: str
    ask: str
    spec: CampaignSpec | None = None


class CampaignCheckAnswer(Wire):
    """To `campaign-check`. field, problem: why not; known: whether there is a campaign of that name."""

    field: str = ""
    problem: Text = ""
    known: bool = True
