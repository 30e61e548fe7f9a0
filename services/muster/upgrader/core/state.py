"""All that the upgrader believes. Folds change it (`fold*.py`), decisions only read it."""

from collections import Counter
from dataclasses import dataclass, field

from muster.cluster import Holds, Nodes
from muster.schemas.facts.node import Cordon
from muster.schemas.facts.upgrade import CampaignWish
from muster.upgrader.core.campaigns import Campaign, Turn
from muster.upgrader.core.config import UpgradeConfig
from muster.upgrader.core.grants import Grant
from muster.upgrader.core.jobs import Job
from muster.upgrader.core.nodes import MILLI, gpus


@dataclass(slots=True)
class State:
    """wishes: not answered yet, by the fact that asked. braked: why health does nothing by itself, "" if it does.

    grants: of nodes, by name, as far as anybody keeps jobs from one or asked to.
    early: turns of a checkpoint whose campaign did not come yet.
    strays: nodes that may have been given for a request that was withdrawn before.
    anomalies: facts that fitted nothing, by what. moves: grows with every fact by which a decision could change,
    courses: with those of campaigns as a whole.
    """

    config: UpgradeConfig
    nodes: Nodes = field(default_factory=Nodes)
    grants: dict[str, Grant] = field(default_factory=dict)
    holds: Holds = field(default_factory=Holds)
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

    def knows(self, node: str) -> bool:
        """Return whether anything is known of a node: it is there, a job holds it, or somebody keeps jobs from it."""
        return node in self.nodes or node in self.grants or bool(self.holds.slots_on(node))

    def grant(self, node: str) -> Grant:
        """Return the node's grant, a new one if there is none. For folds."""
        return self.grants.setdefault(node, Grant())

    def drop_empty_grant(self, node: str) -> None:
        """Forget the node's grant if it says nothing."""
        grant = self.grants.get(node)
        if grant is not None and grant.is_empty:
            del self.grants[node]

    def is_lost(self, node: str) -> bool:
        """Return whether a node of the cluster does not answer."""
        known = self.nodes.get(node)
        return known is not None and known.is_lost

    def cordon(self, node: str) -> Cordon | None:
        """Return a person's cordon of a node."""
        grant = self.grants.get(node)
        return None if grant is None else grant.cordon

    def taken_by_others(self, node: str, now: int) -> str:
        """Return which other service keeps jobs from a node at this moment; "" if none does."""
        grant = self.grants.get(node)
        return "" if grant is None else grant.taken_by_others(now)

    def turns_on(self, node: str) -> list[Turn]:
        """Its turns in all campaigns that are kept."""
        return [campaign.turns[node] for campaign in self.campaigns.values() if node in campaign.turns]

    def turn_asking(self, node: str, request_id: str) -> Turn | None:
        """Whose request to withhold the node this is, if it is one of ours."""
        campaign = self.campaigns.get(request_id.partition(".")[0])
        turn = campaign.turns.get(node) if campaign is not None else None
        return turn if turn is not None and turn.request_id == request_id else None

    def jobs_on(self, node: str) -> list[Job]:
        """Return the jobs that hold something on a node."""
        return [self.jobs[name] for name in self.holds.slots_on(node) if name in self.jobs]

    def is_full(self, node: str) -> bool:
        """Return whether no more GPUs can be had; a node without GPUs is full if a job holds it."""
        return bool(self.holds.slots_on(node)) and self._milli_held(node) >= self._milli(node)

    def count_idle(self, node: str, at: int, *, taken_milli: int = 0) -> None:
        """Add what no job used up to this moment to the turn for which the node is kept. Before its devices change.

        taken_milli: how much more is held since this moment; negative if it is less. A node that is kept for several
        campaigns counts for the first of them.
        """
        turn = next((turn for turn in self.turns_on(node) if turn.request_id), None)
        if turn is None:
            return
        if turn.counted_at and at > turn.counted_at and not turn.freed:
            idle_milli = max(0, self._milli(node) - self._milli_held(node) + taken_milli)
            turn.lost_gpu_s += idle_milli / MILLI * (at - turn.counted_at) / 1e9
        turn.counted_at = at

    def _milli_held(self, node: str) -> int:
        return sum(slot.gpu_milli_held for slots in self.holds.slots_on(node).values() for slot in slots)

    def _milli(self, node: str) -> int:
        return MILLI * gpus(self.nodes.description(node))
