"""Answers to questions about campaigns."""

from collections import Counter

from muster.core import Instant
from muster.core.fact import Core
from muster.schemas.base import Wire
from muster.schemas.campaigns import (
    CAMPAIGNS_MAX,
    TURNS_MAX,
    AskCampaignCheck,
    AskCampaigns,
    AskPreview,
    CampaignCheckAnswer,
    CampaignPreview,
    CampaignsAnswer,
    CampaignView,
    TurnView,
)
from muster.schemas.facts.upgrade import CampaignAsk, CampaignWish, Step
from muster.upgrader.core.campaigns import failed_nodes, refusal, selected, summary
from muster.upgrader.core.core import UpgraderCore
from muster.upgrader.core.forecast import courses, in_turns
from muster.upgrader.core.outlook import free_at, hindrance, is_out, room_of
from muster.upgrader.core.state import Campaign, State, Turn
from muster.upgrader.core.turns import planned

NO_ROOM = "as many nodes are out of use as may be"
"""Why a node has no turn though nothing is wrong with it."""


def answer_campaigns(core: Core, ask: Wire, now: Instant) -> CampaignsAnswer:
    """To `campaigns`."""
    assert isinstance(core, UpgraderCore)
    assert isinstance(ask, AskCampaigns)
    state = core.state
    found = [one for one in state.campaigns.values() if not ask.name or one.name == ask.name]
    found.sort(key=lambda one: (one.ended is not None, -one.accepted_at))
    views = (view_of(state, one, now, with_nodes=bool(ask.name)) for one in found[:CAMPAIGNS_MAX])
    return CampaignsAnswer(campaigns=tuple(views))


def answer_check(core: Core, ask: Wire, _now: Instant) -> CampaignCheckAnswer:
    """To `campaign-check`: what would be answered if it were asked now."""
    assert isinstance(core, UpgraderCore)
    assert isinstance(ask, AskCampaignCheck)
    wish = CampaignWish(fact="", name=ask.name, ask=CampaignAsk(ask.ask), spec=ask.spec)
    refused = refusal(core.state, wish)
    field, problem = refused or ("", "")
    return CampaignCheckAnswer(field=field, problem=problem, known=ask.name in core.state.campaigns)


def answer_preview(core: Core, ask: Wire, now: Instant) -> CampaignPreview:
    """To `preview`: the campaign as it would be planned now, beside two ways to drain by hand."""
    assert isinstance(core, UpgraderCore)
    assert isinstance(ask, AskPreview)
    state, spec = core.state, ask.spec
    wish = CampaignWish(fact="", name=spec.name, ask=CampaignAsk.START, spec=spec)
    refused = refusal(state, wish)
    if refused is not None:
        return CampaignPreview(at=now, field=refused[0], problem=refused[1])
    thought = Campaign(name=spec.name, spec=spec, accepted_at=now)
    for name in selected(state, spec):
        turn = thought.turns[name] = Turn(spec.name, node=name)
        if thought.is_at_version(state.nodes[name].description):
            thought.move(turn, Step.DONE, now)
    starts = planned(state, thought, now)
    waits = sum(turn.step is Step.PLANNED for turn in thought.turns.values())
    turns = (_turn(state, thought, thought.turns[name], now, start) for name, start in starts.items())
    return CampaignPreview(
        at=now,
        nodes=len(thought.turns),
        at_version=len(thought.turns) - waits,
        without_turn=waits - len(starts),
        courses=courses(state, thought, now),
        turns=tuple(turns)[:TURNS_MAX],
    )


def view_of(state: State, campaign: Campaign, now: Instant, *, with_nodes: bool) -> CampaignView:
    """One campaign as it stands."""
    starts = planned(state, campaign, now)
    steps = Counter(turn.step.value for turn in campaign.turns.values())
    ended = campaign.ended
    so_far = ended or summary(campaign, now)
    if ended is not None:
        steps = Counter({"done": ended.done, "failed": ended.failed, "rolled-back": ended.rolled_back})
    going = bool(starts or campaign.open)
    nodes = tuple(
        _turn(state, campaign, turn, now, starts.get(name, Instant(0))) for name, turn in sorted(campaign.turns.items())
    )
    return CampaignView(
        name=campaign.name,
        spec=campaign.spec,
        principal=campaign.principal,
        state=course_of(campaign),
        reason=campaign.aborted or campaign.stopped or campaign.paused or state.braked,
        accepted_at=campaign.accepted_at,
        ended_at=campaign.ended_at,
        steps={step: number for step, number in steps.items() if number},
        next_at=min((start for start in starts.values()), default=0),
        ends_at=in_turns(state, campaign, now).ends_at if going and ended is None else 0,
        without_turn=max(0, steps[Step.PLANNED.value] - len(starts)) if ended is None else 0,
        out_of_use=sum(is_out(state, name, now) for name in campaign.turns),
        out_of_use_most=room_of(campaign).total if campaign.turns else 0,
        gpu_hours_lost=so_far.gpu_hours_lost,
        failed_nodes=failed_nodes(campaign),
        ended=ended,
        nodes=nodes[:TURNS_MAX] if with_nodes else (),
    )


def course_of(campaign: Campaign) -> str:
    """One word for how it goes."""
    if campaign.ended is not None:
        return "ended"
    if campaign.aborted:
        return "aborting"
    return "stopped" if campaign.stopped else "paused" if campaign.paused else "going"


def _turn(state: State, campaign: Campaign, turn: Turn, now: Instant, start: Instant) -> TurnView:
    detail, waits_for = turn.detail, ""
    if turn.step in (Step.PLANNED, Step.CORDONED, Step.WAITING):
        waits_for = free_at(state, campaign, turn.node, now)[1]
        if turn.step is Step.PLANNED:
            no_room = NO_ROOM if campaign.goes_on and not start else detail
            detail = hindrance(state, campaign, turn.node, now) or no_room
    return TurnView(
        node=turn.node,
        step=turn.step.value,
        since=turn.since,
        turn_at=start,
        waits_for=waits_for,
        detail=detail,
        attempt=turn.attempt,
        cordoned_by=turn.cordoned_by,
    )
