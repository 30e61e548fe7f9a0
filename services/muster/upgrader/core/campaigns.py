"""Campaigns, and the turn of each of their nodes."""

from dataclasses import dataclass, field

from muster.core import Instant
from muster.schemas.base import LABEL_CHARS_MAX
from muster.schemas.facts.node import RunningJobs
from muster.schemas.facts.operations import ActionOutcome
from muster.schemas.facts.upgrade import (
    CampaignEnded,
    CampaignSpec,
    CampaignState,
    Step,
    TurnState,
)
from muster.upgrader.core.nodes import Node


@dataclass(slots=True)
class Turn:
    """One node in one campaign; fields as in `TurnState`."""

    campaign: str
    node: str
    step: Step = Step.PLANNED
    attempt: int = 1
    asks: int = 0
    number: int = 0
    since: int = 0
    request_id: str = ""
    from_at: int = 0
    running: RunningJobs = RunningJobs.FINISH
    is_withheld: bool = False
    work_id: str = ""
    outcome: ActionOutcome | None = None
    version_before: str = ""
    detail: str = ""
    cordoned_by: str = ""
    counted_at: int = 0
    lost_gpu_s: float = 0.0
    freed: bool = False
    last_fact: str = ""

    @property
    def is_open(self) -> bool:
        """Whether its turn has come and is not over."""
        return self.step is not Step.PLANNED and not self.step.is_end

    def stored(self) -> TurnState:
        """As a checkpoint keeps it."""
        return TurnState(**{name: getattr(self, name) for name in TurnState.model_fields})


def turn_of(node: str, stored: TurnState) -> Turn:
    """As a checkpoint kept it."""
    return Turn(node=node, **{name: getattr(stored, name) for name in TurnState.model_fields})


@dataclass(slots=True)
class Campaign:
    """One campaign. number: the sequence of `accepted`, which tells it from earlier ones of its name.

    paused, stopped, aborted: why, "" while it is not. failures_forgiven: before the last resume. turns: by node;
    open: of those, whose turn has come and is not over.
    """

    name: str
    spec: CampaignSpec
    number: int
    accepted_at: Instant
    fact: str = ""
    trace: str = ""
    principal: str = ""
    paused: str = ""
    stopped: str = ""
    aborted: str = ""
    failures: int = 0
    failures_forgiven: int = 0
    ended: CampaignEnded | None = None
    ended_at: int = 0
    last_fact: str = ""
    turns: dict[str, Turn] = field(default_factory=dict)
    open: dict[str, None] = field(default_factory=dict)

    @property
    def goes_on(self) -> bool:
        """Whether further nodes may be taken."""
        return self.ended is None and not (self.paused or self.stopped or self.aborted)

    def move(self, turn: Turn, step: Step, at: int) -> None:
        """The turn is at this step from now on."""
        turn.step, turn.since = step, at
        if turn.is_open:
            self.open[turn.node] = None
        else:
            self.open.pop(turn.node, None)

    def put(self, turn: Turn) -> None:
        """A turn as a checkpoint says."""
        self.turns[turn.node] = turn
        self.move(turn, turn.step, turn.since)

    def drop(self, node: str) -> None:
        """The node is none of this campaign's any more."""
        self.turns.pop(node, None)
        self.open.pop(node, None)

    @property
    def request_prefix(self) -> str:
        """How ids of its requests begin: campaign and number hold no dots."""
        return f"{self.name}.{self.number}."

    def request_id(self, turn: Turn, what: str) -> str:
        """Id of the next request of a turn: unique for the node, the campaign, the attempt, and when the node came.

        A node that left and came again has another turn, and the agent has not forgotten what it did in the first one.
        """
        return f"{self.request_prefix}{turn.number}.{turn.attempt}.{turn.asks}.{what}.{turn.node}"[:LABEL_CHARS_MAX]

    def selects(self, node: Node) -> bool:
        """Whether the node is one of this campaign."""
        select, described = self.spec.select, node.description
        if described is None:
            return False
        labels = dict(described.labels)
        return (
            (not select.nodes or node.name in select.nodes)
            and (not select.groups or described.group in select.groups)
            and (not select.models or described.gpu_model in select.models)
            and all(labels.get(name) == value for name, value in select.labels.items())
        )

    def is_at_version(self, node: Node) -> bool:
        """Whether nothing is to be done there."""
        return bool(self.spec.version) and node.version(self.spec.component.value) == self.spec.version

    def stored(self) -> CampaignState:
        """As a checkpoint keeps it; its turns stand with their nodes."""
        names = set(CampaignState.model_fields) - {"wishes"}
        return CampaignState(**{name: getattr(self, name) for name in names})


def campaign_of(name: str, stored: CampaignState) -> Campaign | None:
    """As a checkpoint kept it; None if it was only asked for."""
    if stored.spec is None:
        return None
    values = {name: getattr(stored, name) for name in set(CampaignState.model_fields) - {"wishes"}}
    return Campaign(name=name, **values)
