"""How campaigns, and the steps of their nodes, change what the upgrader believes."""

from collections.abc import Callable
from functools import partial

from muster.core import Fact
from muster.schemas.facts.health import BrakeTripped
from muster.schemas.facts.node import NodeJoined
from muster.schemas.facts.upgrade import (
    CampaignAccepted,
    CampaignAsk,
    CampaignChanged,
    CampaignChangeRequested,
    CampaignEnded,
    CampaignStartRequested,
    CampaignStopped,
    CampaignWish,
    NodeStepped,
    Step,
)
from muster.upgrader.core import limits
from muster.upgrader.core.state import Campaign, State, Turn, version

NO_REASON = "as asked"
_FAILURES = frozenset({Step.ROLLING_BACK, Step.FAILED})


def _asked(state: State, fact: Fact, *, ask: CampaignAsk) -> None:
    wish = CampaignWish(fact=fact.id, name=fact.subject_id, ask=ask, trace=fact.trace)
    match fact.payload:
        case CampaignStartRequested(spec=spec, principal=principal):
            wish = wish.model_copy(update={"spec": spec, "principal": principal})
        case CampaignChangeRequested(principal=principal, reason=reason):
            wish = wish.model_copy(update={"reason": reason, "principal": principal})
    state.wishes[fact.id] = wish
    state.moves += 1


def _accepted(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, CampaignAccepted)
    said = fact.payload
    _answered(state, fact)
    campaign = Campaign(
        name=fact.subject_id, spec=said.spec, number=fact.seq, accepted_at=fact.time, fact=fact.id, trace=fact.trace,
        principal=said.principal, last_fact=fact.id,
    )  # fmt: skip
    before = state.campaigns.pop(campaign.name, None)
    for turn in before.turns.values() if before is not None else ():
        if turn.request_id:  # nobody else withdraws what the one before asked, and was given
            state.strays[turn.node] = None
    state.campaigns[campaign.name] = campaign
    state.courses += 1
    for name in sorted(state.nodes):
        _add(campaign, name, state.nodes[name].description, fact)
    _forget_oldest(state)


def _changed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, CampaignChanged)
    _answered(state, fact)
    campaign = _live(state, fact)
    if campaign is None:
        return
    reason = fact.payload.reason or NO_REASON
    match fact.name:
        case "paused":
            campaign.paused = reason
        case "aborted":
            campaign.aborted = reason
        case _:
            campaign.paused = campaign.stopped = ""
            campaign.failures_forgiven = campaign.failures
            for turn in campaign.turns.values():
                if turn.step is Step.FAILED and turn.request_id:
                    campaign.move(turn, Step.PLANNED, fact.time)
                    turn.attempt, turn.work_id, turn.outcome, turn.freed = turn.attempt + 1, "", None, False


def _refused(state: State, fact: Fact) -> None:
    _answered(state, fact)


def _stopped(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, CampaignStopped)
    campaign = _live(state, fact)
    if campaign is not None:
        campaign.stopped = fact.payload.reason


def _ended(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, CampaignEnded)
    campaign = _live(state, fact)
    if campaign is None:
        return
    for name in [name for name, turn in campaign.turns.items() if turn.request_id]:
        state.count_idle(name, fact.time)
    campaign.ended, campaign.ended_at = fact.payload, fact.time
    for name in [name for name, turn in campaign.turns.items() if not turn.request_id]:
        campaign.drop(name)
    _forget_oldest(state)


def _stepped(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, NodeStepped)
    said = fact.payload
    campaign = state.campaigns.get(said.campaign)
    turn = campaign.turns.get(fact.subject_id) if campaign is not None else None
    if campaign is None or turn is None:
        state.anomalies["stepped in no turn"] += 1
        return
    if said.step is Step.CORDONED:
        described = state.nodes.description(fact.subject_id)
        turn.version_before = version(described, campaign.spec.component.value)
        turn.cordoned_by = said.cordoned_by
    if said.step in _FAILURES and turn.step not in _FAILURES:
        campaign.failures += 1
    campaign.move(turn, said.step, fact.time)
    turn.detail = said.detail
    turn.work_id, turn.outcome = said.request_id, None
    turn.last_fact = fact.id
    state.moves += 1


def note_node(state: State, fact: Fact) -> None:
    """The node came, or is described otherwise: campaigns that fit take it, and one that has the version is done."""
    node, described = fact.subject_id, fact.payload
    assert isinstance(described, NodeJoined)
    for campaign in state.live:
        turn = campaign.turns.get(node)
        if turn is None:
            _add(campaign, node, described, fact)
        elif turn.step is Step.PLANNED and not turn.request_id and campaign.is_at_version(described):
            campaign.move(turn, Step.DONE, fact.time)
            turn.detail = AT_VERSION
    state.moves += bool(state.campaigns)


AT_VERSION = "it had the version already"


def _add(campaign: Campaign, node: str, described: NodeJoined, fact: Fact) -> None:
    if not campaign.selects(node, described):
        return
    turn = campaign.turns[node] = Turn(campaign.name, node=node, number=fact.seq, since=fact.time)
    if campaign.is_at_version(described):
        campaign.move(turn, Step.DONE, fact.time)
        turn.detail = AT_VERSION


def _live(state: State, fact: Fact) -> Campaign | None:
    campaign = state.campaigns.get(fact.subject_id)
    if campaign is None or campaign.ended is not None:
        state.anomalies[f"{fact.name} of no live campaign"] += 1
        return None
    campaign.last_fact = fact.id
    state.moves += 1
    state.courses += 1
    return campaign


def _answered(state: State, fact: Fact) -> None:
    for cause in fact.causes:
        state.wishes.pop(cause, None)
    state.moves += 1


def _forget_oldest(state: State) -> None:
    """Of campaigns that are over, those without a node that waits for a person go first."""
    over = [campaign for campaign in state.campaigns.values() if campaign.ended is not None and not campaign.turns]
    for campaign in over[: -limits.ENDED_KEPT]:
        del state.campaigns[campaign.name]
    state.moves += 1


def _braked(state: State, fact: Fact) -> None:
    tripped = isinstance(fact.payload, BrakeTripped)
    state.braked = fact.payload.because or "too many nodes at once" if isinstance(fact.payload, BrakeTripped) else ""
    state.moves += tripped or bool(state.campaigns)


HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    **{("campaign", f"{ask.value}-forwarded"): partial(_asked, ask=ask) for ask in CampaignAsk},
    ("campaign", "accepted"): _accepted,
    ("campaign", "refused"): _refused,
    **{("campaign", name): _changed for name in ("paused", "resumed", "aborted")},
    ("campaign", "stopped"): _stopped,
    ("campaign", "ended"): _ended,
    ("node", "upgrade-stepped"): _stepped,
    ("health", "brake-tripped"): _braked,
    ("health", "brake-reset"): _braked,
}
