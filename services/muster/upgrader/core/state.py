"""All that the upgrader believes. Folds change it (`fold*.py`), decisions only read it."""

from collections import Counter
from dataclasses import dataclass, field

from muster.schemas.facts.upgrade import CampaignWish
from muster.upgrader.core.campaigns import Campaign, Turn
from muster.upgrader.core.config import UpgradeConfig
from muster.upgrader.core.jobs import Job
from muster.upgrader.core.nodes import MILLI, Node


@dataclass(slots=True)
class State:
    """wishes: not answered yet, by the fact that asked. braked: why health does nothing by itself, "" if it does.

    early: turns of a checkpoint whose campaign did not come yet.
    strays: nodes that may have been given for a request that was withdrawn before.
    anomalies: facts that fitted nothing, by what. moves: grows with every fact by which a decision could change,
    courses: with those of campaigns as a whole.
    """

    config: UpgradeConfig
    nodes: dict[str, Node] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    campaigns: dict[str, Campaign] = field(default_factory=dict)
    wishes: dict[str, CampaignWish] = field(default_factory=dict)
    braked: str = ""
    early: dict[str, list[Turn]] = field(default_factory=dict)
    strays: dict[str, None] = field(default_factory=dict)
    anomalies: Counter[str] = field(default_factory=Counter)
    moves: int = 0
    courses: int = 0

    @property
    def live(self) -> list[Campaign]:
        """Campaigns that are not over, in the order in which they were accepted."""
        return [campaign for campaign in self.campaigns.values() if campaign.ended is None]

    def node(self, name: str) -> Node:
        """The node of this name, known or not."""
        found = self.nodes.get(name)
        if found is None:
            found = self.nodes[name] = Node(name)
        return found

    def forget_node(self, name: str) -> None:
        """Drop what nothing is known of."""
        node = self.nodes.get(name)
        if node is not None and node.is_forgotten:
            del self.nodes[name]

    def turns_on(self, node: str) -> list[Turn]:
        """Its turns in all campaigns that are kept."""
        return [campaign.turns[node] for campaign in self.campaigns.values() if node in campaign.turns]

    def turn_asking(self, node: str, request_id: str) -> Turn | None:
        """Whose request to withhold the node this is, if it is one of ours."""
        campaign = self.campaigns.get(request_id.partition(".")[0])
        turn = campaign.turns.get(node) if campaign is not None else None
        return turn if turn is not None and turn.request_id == request_id else None

    def count_idle(self, node: Node, at: int) -> None:
        """Add what nobody used up to this moment to the turn for which the node is kept. Before what it holds changes.

        A node that is kept for several campaigns counts for the first of them.
        """
        turn = next((turn for turn in self.turns_on(node.name) if turn.request_id), None)
        if turn is None:
            return
        if turn.counted_at and at > turn.counted_at and not turn.freed:
            turn.lost_gpu_s += node.milli_idle / MILLI * (at - turn.counted_at) / 1e9
        turn.counted_at = at
