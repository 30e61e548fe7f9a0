"""Answer questions about campaigns.

Simulates a campaign, and draining by hand, over the jobs that run now. Pure.
The fleet is assumed full: when a job ends, a similar one begins at once, unless the node is kept for its turn. Jobs are
assumed to run to their limits, so a campaign ends no later than estimated if no new problem appears.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from muster.core import NS_PER_S, Instant, after, seconds_between
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
    Course,
    TurnView,
)
from muster.schemas.facts.node import RunningJobs
from muster.schemas.facts.upgrade import CampaignAsk, PendingCampaignChange, Step
from muster.upgrader.core.campaigns import failed_nodes, refusal, selected, summary
from muster.upgrader.core.core import UpgraderCore
from muster.upgrader.core.outlook import free_at, hindrance, is_out, room_of
from muster.upgrader.core.state import MILLI, Campaign, Job, State, Turn, gpus
from muster.upgrader.core.turns import planned

CAMPAIGN, NAIVE, WAIT = "campaign", "naive drain", "cordon and wait"
HOUR_S = 3600.0


@dataclass(slots=True)
class _Cost:
    """GPU hours, and jobs."""

    idle_gpu_s: float = 0.0
    redone_gpu_s: float = 0.0
    killed: int = 0
    moved: int = 0

    def course(self, way: str, ends_at: int) -> Course:
        idle, redone = self.idle_gpu_s / HOUR_S, self.redone_gpu_s / HOUR_S
        return Course(
            way=way,
            ends_at=ends_at,
            jobs_killed=self.killed,
            jobs_moved=self.moved,
            gpu_hours_lost=round(idle + redone, 1),
            idle_gpu_hours=round(idle, 1),
            redone_gpu_hours=round(redone, 1),
        )


def courses(state: State, campaign: Campaign, now: Instant) -> tuple[Course, Course, Course]:
    """Return the plan of the campaign, and the costs of draining the same number of nodes by evicting or by waiting."""
    return (
        in_turns(state, campaign, now),
        _by_name(state, campaign, now, evict=True),
        _by_name(state, campaign, now, evict=False),
    )


def in_turns(state: State, campaign: Campaign, now: Instant) -> Course:
    """Return the cost of the plan: nodes idle until their turn ends, and moved jobs repeat a restart."""
    cost, takes_s = _Cost(), campaign.spec.takes_s
    starts, moved, patience_s = planned(state, campaign, now), set[str](), state.config.patience_s
    for name, start in starts.items():
        free, _ = free_at(state, campaign, name, now)
        waited_s = min(seconds_between(free, start), patience_s)
        cost.idle_gpu_s += gpus(state.nodes.description(name)) * (waited_s + takes_s)
        if campaign.spec.running is RunningJobs.MOVE:
            moved |= {job.id for job in state.jobs_on(name) if job.can_move and job.ends_by(now) > start}
    for job_id in moved:
        job = state.jobs[job_id]
        assert job.spec.checkpointing is not None, "only jobs that checkpoint can be moved"
        cost.moved += 1
        cost.redone_gpu_s += _gpus(state, job) * job.spec.checkpointing.restart_s
    under_way = max((turn.since for turn in campaign.turns.values() if turn.is_open), default=0)
    last = max([*starts.values(), Instant(under_way)], default=now)
    return cost.course(CAMPAIGN, max(now, after(Instant(last), takes_s)) if starts or under_way else now)


def _by_name(state: State, campaign: Campaign, now: Instant, *, evict: bool) -> Course:
    """Return the cost of draining batches of nodes by name.

    With `evict`, jobs are stopped; work since the last checkpoint is lost, on average half an interval, or the whole
    run. Otherwise each batch waits until all of its jobs have ended, and idles meanwhile.
    """
    cost, takes_s, evicted = _Cost(), campaign.spec.takes_s, set[str]()
    moment = now
    for names in _few(campaign, room_of(campaign).total):
        ends = [max((_next_end(job, moment, now) for job in state.jobs_on(name)), default=moment) for name in names]
        if evict:
            for job in {job.id: job for name in names for job in state.jobs_on(name)}.values():
                if job.id not in evicted:
                    evicted.add(job.id)
                    _evict(state, cost, job, moment, now)
            ready = moment
        else:
            ready = max(ends, default=moment)
        done = after(ready, takes_s)
        for name, end in zip(names, ends, strict=True):
            idle_from = moment if evict else end
            cost.idle_gpu_s += gpus(state.nodes.description(name)) * seconds_between(idle_from, done)
        moment = done
    return cost.course(NAIVE if evict else WAIT, moment)


def _few(campaign: Campaign, most: int) -> Iterator[list[str]]:
    names = sorted(name for name, turn in campaign.turns.items() if turn.step is Step.PLANNED)
    for at in range(0, len(names), most):
        yield names[at : at + most]


def _evict(state: State, cost: _Cost, job: Job, moment: Instant, now: Instant) -> None:
    worked_s = _worked_s(job, moment, now)
    checkpointing = job.spec.checkpointing
    redone_s = worked_s
    if checkpointing is not None:
        redone_s = min(worked_s, checkpointing.interval_s / 2) + checkpointing.restart_s
    cost.killed += 1
    cost.redone_gpu_s += _gpus(state, job) * redone_s


def _next_end(job: Job, moment: Instant, now: Instant) -> Instant:
    """Return when the job that runs there at a later time ends: this one, or a similar successor."""
    end = job.ends_by(now)
    if moment <= end:
        return end
    length = max(1, round(job.total_s * NS_PER_S))
    return Instant(end + -(-(moment - end) // length) * length)


def _worked_s(job: Job, moment: Instant, now: Instant) -> float:
    """Return for how long the job that runs there at a later time has run."""
    left_s = seconds_between(moment, _next_end(job, moment, now))
    return max(0.0, job.total_s - left_s) if moment > job.ends_by(now) else max(0.0, job.total_s - job.ran_s - left_s)


def _gpus(state: State, job: Job) -> float:
    return sum(slot.gpu_milli_held for slot in state.holds.jobs[job.id].held) / MILLI


NO_ROOM = "as many nodes are out of use as may be"
"""Reason of a node that has no turn although nothing is wrong with it."""


def answer_campaigns(core: Core, ask: Wire, now: Instant) -> CampaignsAnswer:
    """Answer `campaigns`."""
    assert isinstance(core, UpgraderCore)
    assert isinstance(ask, AskCampaigns)
    state = core.state
    found = [one for one in state.campaigns.values() if not ask.name or one.name == ask.name]
    found.sort(key=lambda one: (one.ended is not None, -one.accepted_at))
    views = (view_of(state, one, now, with_nodes=bool(ask.name)) for one in found[:CAMPAIGNS_MAX])
    return CampaignsAnswer(campaigns=tuple(views))


def answer_check(core: Core, ask: Wire, _now: Instant) -> CampaignCheckAnswer:
    """Answer `campaign-check`: the answer that a request would get now."""
    assert isinstance(core, UpgraderCore)
    assert isinstance(ask, AskCampaignCheck)
    request = PendingCampaignChange(fact="", name=ask.name, ask=CampaignAsk(ask.ask), spec=ask.spec)
    refused = refusal(core.state, request)
    field, problem = refused or ("", "")
    return CampaignCheckAnswer(field=field, problem=problem, known=ask.name in core.state.campaigns)


def answer_preview(core: Core, ask: Wire, now: Instant) -> CampaignPreview:
    """Answer `preview`: the campaign as planned now, beside two ways to drain by hand."""
    assert isinstance(core, UpgraderCore)
    assert isinstance(ask, AskPreview)
    state, spec = core.state, ask.spec
    request = PendingCampaignChange(fact="", name=spec.name, ask=CampaignAsk.START, spec=spec)
    refused = refusal(state, request)
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
    """Return the view of one campaign."""
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
    """Return the state of a campaign as one word."""
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
