"""Which fact changes the state how, and the parts of a checkpoint. What fits no state is counted, nothing else."""

from collections.abc import Callable, Iterator

from muster.core import Draft, Fact
from muster.schemas.facts.health import BrakeState
from muster.schemas.facts.job import JobState
from muster.schemas.facts.node import GrantState, NodeState
from muster.schemas.facts.upgrade import CampaignState, CampaignWish, NodeTurnsState, TurnState
from muster.schemas.registry import STATE_NAME
from muster.upgrader.core import fold_campaigns, fold_cluster
from muster.upgrader.core.state import Campaign, State, Turn


def restore(state: State, fact: Fact) -> None:
    """One part of a checkpoint. Turns are kept until their campaign comes, which may be later."""
    match fact.payload:
        case JobState():
            fold_cluster.load_job(state, fact)
        case NodeState():
            state.nodes.apply(fact)
        case GrantState() as grant if fact.kind == "node":
            fold_cluster.load_grant(state, fact.subject_id, grant)
        case BrakeState(tripped=tripped):
            state.braked = "" if tripped is None else tripped.because or "too many nodes at once"
        case CampaignState() as stored:
            _load_campaign(state, fact.subject_id, stored)
        case NodeTurnsState(turns=turns):
            for turn in turns:
                campaign, found = state.campaigns.get(turn.campaign), Turn.restored(turn, node=fact.subject_id)
                if campaign is not None:
                    campaign.put(found)
                else:
                    state.early.setdefault(turn.campaign, []).append(found)
        case _:
            return
    state.moves += 1


def states(state: State) -> Iterator[Draft]:
    """Campaigns, requests without an answer, and turns by node."""
    asked: dict[str, tuple[CampaignWish, ...]] = {}
    for wish in state.wishes.values():
        asked[wish.name] = (*asked.get(wish.name, ()), wish)
    for campaign in state.campaigns.values():
        stored = campaign.as_body(CampaignState)
        stored.wishes = asked.pop(campaign.name, ())
        yield Draft("campaign", campaign.name, STATE_NAME, stored, trace=campaign.trace)
    for name, wishes in asked.items():
        yield Draft("campaign", name, STATE_NAME, CampaignState(wishes=wishes))
    for node in sorted({name for campaign in state.campaigns.values() for name in campaign.turns}):
        turns = tuple(turn.as_body(TurnState) for turn in state.turns_on(node))
        yield Draft("node", node, STATE_NAME, NodeTurnsState(turns=turns))


def _load_campaign(state: State, name: str, stored: CampaignState) -> None:
    state.wishes.update({wish.fact: wish for wish in stored.wishes})
    if stored.spec is None:
        return  # it was only asked for
    campaign = Campaign.restored(stored, name=name)
    for turn in state.early.pop(name, ()):
        campaign.put(turn)
    state.campaigns[name] = campaign


_STATES = ("campaign", "node", "job", "health")

HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    **fold_cluster.JOB_HANDLERS,
    **fold_cluster.NODE_HANDLERS,
    **fold_campaigns.HANDLERS,
    **{(kind, STATE_NAME): restore for kind in _STATES},
}


def fold(state: State, fact: Fact) -> None:
    """One fact further. Facts that the upgrader has no use for cost one look-up."""
    handler = HANDLERS.get((fact.kind, fact.name))
    if handler is not None:
        handler(state, fact)
