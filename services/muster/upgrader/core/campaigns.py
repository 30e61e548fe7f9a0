"""Campaigns, and the turn of each of their nodes."""

from dataclasses import dataclass, field

from muster.core import Instant
from muster.schemas.base import LABEL_CHARS_MAX
from muster.schemas.facts.node import NodeJoined
from muster.schemas.facts.upgrade import (
    CampaignSpec,
    CampaignState,
    Step,
    TurnState,
)
from muster.upgrader.core.nodes import version


@dataclass(slots=True, kw_only=True)
class Turn(TurnState):
    """One node in one campaign."""

    node: str

    @property
    def is_open(self) -> bool:
        """Whether its turn has come and is not over."""
        return self.step is not Step.PLANNED and not self.step.is_end


@dataclass(slots=True, kw_only=True)
class Campaign(CampaignState):
    """One campaign."""

    name: str
    spec: CampaignSpec
    turns: dict[str, Turn] = field(default_factory=dict)
    """By node."""
    open: dict[str, None] = field(default_factory=dict)
    """Nodes whose turn has come and is not over."""

    @property
    def goes_on(self) -> bool:
        """Whether further nodes may be taken."""
        return self.ended is None and not (self.paused or self.stopped or self.aborted)

    def move(self, turn: Turn, step: Step, at: Instant) -> None:
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

    def selects(self, node: str, described: NodeJoined) -> bool:
        """Whether the node is one of this campaign."""
        select = self.spec.select
        labels = dict(described.labels)
        return (
            (not select.nodes or node in select.nodes)
            and (not select.groups or described.group in select.groups)
            and (not select.models or described.gpu_model in select.models)
            and all(labels.get(name) == value for name, value in select.labels.items())
        )

    def is_at_version(self, described: NodeJoined) -> bool:
        """Whether nothing is to be done there."""
        return bool(self.spec.version) and version(described, self.spec.component.value) == self.spec.version
