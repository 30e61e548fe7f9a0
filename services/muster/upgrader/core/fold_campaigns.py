"""Fold campaigns and the steps of their nodes."""

from muster.core import Fact
from muster.core.folding import Folds
from muster.schemas.facts.health import BrakeReset, BrakeState, BrakeTripped
from muster.schemas.facts.node import NodeJoined
from muster.schemas.facts.upgrade import (
    CampaignAccepted,
    CampaignAsk,
    CampaignChanged,
    CampaignChangeRequested,
    CampaignEnded,
    CampaignRefused,
    CampaignStartRequested,
    CampaignStopped,
    NodeStepped,
    PendingCampaignChange,
    Step,
)
from muster.schemas.registry import STATE_NAME
from muster.upgrader.core import limits
from muster.upgrader.core.state import Campaign, State, Turn, version

FOLDS = Folds[State, None]()


NO_REASON = "as asked"
TOO_MANY = "too many nodes at once"
_FAILURES = frozenset({Step.ROLLING_BACK, Step.FAILED})


@FOLDS.on("campaign", "start-forwarded", CampaignStartRequested)
def _start_asked(state: State, fact: Fact, asked: CampaignStartRequested) -> None:
    request = PendingCampaignChange(fact=fact.id, name=fact.subject_id, ask=CampaignAsk.START, trace=fact.trace)
    _keep(state, request.model_copy(update={"spec": asked.spec, "principal": asked.principal}))


@FOLDS.on("campaign", ("pause-forwarded", "resume-forwarded", "abort-forwarded"), CampaignChangeRequested)
def _change_asked(state: State, fact: Fact, asked: CampaignChangeRequested) -> None:
    ask = CampaignAsk(fact.name.removesuffix("-forwarded"))
    request = PendingCampaignChange(fact=fact.id, name=fact.subject_id, ask=ask, trace=fact.trace)
    _keep(state, request.model_copy(update={"reason": asked.reason, "principal": asked.principal}))


def _keep(state: State, request: PendingCampaignChange) -> None:
    state.wishes[request.fact] = request
    state.moves += 1


@FOLDS.on("campaign", "accepted", CampaignAccepted)
def _accepted(state: State, fact: Fact, accepted: CampaignAccepted) -> None:
    _answered(state, fact)
    campaign = Campaign(
        name=fact.subject_id, spec=accepted.spec, number=fact.seq, accepted_at=fact.time, fact=fact.id,
        trace=fact.trace, principal=accepted.principal, last_fact=fact.id,
    )  # fmt: skip
    before = state.campaigns.pop(campaign.name, None)
    for turn in before.turns.values() if before is not None else ():
        if turn.request_id:  # no other campaign withdraws the granted requests of the one before
            state.strays[turn.node] = None
    state.campaigns[campaign.name] = campaign
    state.courses += 1
    for name in sorted(state.nodes):
        _add(campaign, name, state.nodes[name].description, fact)
    _forget_oldest(state)


@FOLDS.on("campaign", ("paused", "resumed", "aborted"), CampaignChanged)
def _changed(state: State, fact: Fact, changed: CampaignChanged) -> None:
    _answered(state, fact)
    campaign = _live(state, fact)
    if campaign is None:
        return
    reason = changed.reason or NO_REASON
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


@FOLDS.on("campaign", "refused", CampaignRefused)
def _refused(state: State, fact: Fact, _: CampaignRefused) -> None:
    _answered(state, fact)


@FOLDS.on("campaign", "stopped", CampaignStopped)
def _stopped(state: State, fact: Fact, stopped: CampaignStopped) -> None:
    campaign = _live(state, fact)
    if campaign is not None:
        campaign.stopped = stopped.reason


@FOLDS.on("campaign", "ended", CampaignEnded)
def _ended(state: State, fact: Fact, ended: CampaignEnded) -> None:
    campaign = _live(state, fact)
    if campaign is None:
        return
    for name in [name for name, turn in campaign.turns.items() if turn.request_id]:
        state.count_idle(name, fact.time)
    campaign.ended, campaign.ended_at = ended, fact.time
    for name in [name for name, turn in campaign.turns.items() if not turn.request_id]:
        campaign.drop(name)
    _forget_oldest(state)


@FOLDS.on("node", "upgrade-stepped", NodeStepped)
def _stepped(state: State, fact: Fact, stepped: NodeStepped) -> None:
    campaign = state.campaigns.get(stepped.campaign)
    turn = campaign.turns.get(fact.subject_id) if campaign is not None else None
    if campaign is None or turn is None:
        state.anomalies["stepped in no turn"] += 1
        return
    if stepped.step is Step.CORDONED:
        described = state.nodes.description(fact.subject_id)
        turn.version_before = version(described, campaign.spec.component.value)
        turn.cordoned_by = stepped.cordoned_by
    if stepped.step in _FAILURES and turn.step not in _FAILURES:
        campaign.failures += 1
    campaign.move(turn, stepped.step, fact.time)
    turn.detail = stepped.detail
    turn.work_id, turn.outcome = stepped.request_id, None
    turn.last_fact = fact.id
    state.moves += 1


def note_node(state: State, fact: Fact, described: NodeJoined) -> None:
    """Update campaigns after a node joined or changed: fitting ones take it, and one with the version is done."""
    node = fact.subject_id
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
    """Forget ended campaigns, first those without a node that waits for a person."""
    over = [campaign for campaign in state.campaigns.values() if campaign.ended is not None and not campaign.turns]
    for campaign in over[: -limits.ENDED_KEPT]:
        del state.campaigns[campaign.name]
    state.moves += 1


@FOLDS.on("health", "brake-tripped", BrakeTripped)
def _brake_tripped(state: State, _fact: Fact, tripped: BrakeTripped) -> None:
    state.braked = tripped.because or TOO_MANY
    state.moves += 1


@FOLDS.on("health", "brake-reset", BrakeReset)
def _brake_reset(state: State, _fact: Fact, _: BrakeReset) -> None:
    state.braked = ""
    state.moves += bool(state.campaigns)


@FOLDS.on("health", STATE_NAME, BrakeState)
def _brake_restored(state: State, _fact: Fact, stored: BrakeState) -> None:
    state.braked = "" if stored.tripped is None else stored.tripped.because or TOO_MANY
