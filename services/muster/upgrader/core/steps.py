"""Decide the next step of a node whose turn has come, each as facts in one batch."""

from muster.core import Draft, Instant, after, seconds_between
from muster.schemas.base import Payload
from muster.schemas.facts.node import RunningJobs, WithholdRequested, WithholdWithdrawn
from muster.schemas.facts.operations import ActionOutcome, ChecksRequested, NodeActionRequested
from muster.schemas.facts.upgrade import NodeStepped, Step
from muster.upgrader.core import limits
from muster.upgrader.core.outlook import free_at
from muster.upgrader.core.state import Campaign, State, Turn

NO_SUITE = "no such suite of checks any more"
SECOND_STEP = ".back-checks."
_IDLE = frozenset({Step.CORDONED, Step.WAITING, Step.DRAINED})
"""Steps before any work on the node."""


def next_step(state: State, campaign: Campaign, turn: Turn, now: Instant) -> list[Draft]:
    """Return what its turn needs now; nothing while it waits.

    A node that another service wants goes back before any work: that service may wait for the upgrader, and both would
    wait forever. Its turn comes again once the other service is done.
    """
    other = state.taken_by_others(turn.node, now)
    if other and turn.step in _IDLE:
        return give_back(campaign, turn, f"{other} keeps it from jobs")
    match turn.step:
        case Step.CORDONED | Step.WAITING:
            return _until_drained(state, campaign, turn, now)
        case Step.DRAINED:
            return _drained(state, campaign, turn)
        case Step.UPGRADING | Step.VALIDATING | Step.ROLLING_BACK:
            return _worked(state, campaign, turn, now)
        case Step.FAILED if turn.freed and turn.request_id:
            return [_withdrawn(turn, "a person wants it used again")]
        case _:
            return []


def due_at(state: State, campaign: Campaign, turn: Turn) -> Instant | None:
    """Return when unanswered work on the node counts as failed; None without work."""
    if not turn.work_id or turn.outcome is not None:
        return None
    limit_s = campaign.spec.action_limit_s
    if turn.step is Step.VALIDATING or SECOND_STEP in turn.work_id:
        suite = state.config.suites.get(campaign.spec.suite)
        limit_s = suite.limit_s if suite is not None else 0.0
    return after(turn.since, limit_s + limits.ANSWER_SLACK_S)


def take(state: State, campaign: Campaign, turn: Turn, now: Instant) -> list[Draft]:
    """Begin a turn: nothing new starts there from now on, and jobs that allow it are moved."""
    cordon = state.cordon(turn.node)
    by = cordon.principal if cordon is not None else ""
    said = NodeStepped(campaign=campaign.name, step=Step.CORDONED, attempt=turn.attempt, cordoned_by=by)
    drafts = [_stepped(turn, said)]
    if not turn.is_withheld and (not turn.request_id or turn.from_at > now or turn.running != campaign.spec.running):
        drafts.append(ask(campaign, turn, from_at=0, running=campaign.spec.running))
    return drafts


def ask(campaign: Campaign, turn: Turn, *, from_at: int, running: RunningJobs) -> Draft:
    """Request the node from the scheduler, or another time under the open request."""
    asked = WithholdRequested(
        request_id=turn.request_id or campaign.request_id(turn, "hold"),
        reason=f"upgrade: campaign {campaign.name}",
        running=running,
        from_at=from_at,
    )
    return _draft(turn, "withhold-requested", asked)


def give_back(campaign: Campaign, turn: Turn, because: str) -> list[Draft]:
    """Return the node to jobs before any work; it stays planned."""
    drafts = list[Draft]()
    if turn.step is not Step.PLANNED:
        said = NodeStepped(campaign=campaign.name, step=Step.PLANNED, attempt=turn.attempt, detail=because)
        drafts.append(_stepped(turn, said))
    if turn.request_id:
        drafts.append(_withdrawn(turn, because))
    return drafts


def _until_drained(state: State, campaign: Campaign, turn: Turn, now: Instant) -> list[Draft]:
    if turn.is_withheld:
        return [_stepped(turn, NodeStepped(campaign=campaign.name, step=Step.DRAINED, attempt=turn.attempt))]
    holders = state.holds.jobs_on(turn.node)
    if turn.request_id and holders and turn.step is Step.CORDONED:
        left_s = seconds_between(now, free_at(state, campaign, turn.node, now)[0])
        count = f"{len(holders)} jobs" if len(holders) > 1 else "1 job"
        detail = f"{count}, for {left_s / 3600:.1f} h at the most"
        said = NodeStepped(campaign=campaign.name, step=Step.WAITING, attempt=turn.attempt, detail=detail)
        return [_stepped(turn, said)]
    if not turn.request_id:  # it was given back, or never requested: request it
        return [ask(campaign, turn, from_at=0, running=campaign.spec.running)]
    return []


def _drained(state: State, campaign: Campaign, turn: Turn) -> list[Draft]:
    """Start work, only on a node that is empty and answers."""
    if not turn.is_withheld or state.holds.slots_on(turn.node) or state.is_lost(turn.node):
        return []
    spec = campaign.spec
    action = NodeActionRequested(
        request_id=campaign.request_id(turn, "action"),
        action=spec.component,
        version=spec.version,
        command=spec.command,
        limit_s=spec.action_limit_s,
        for_what=f"campaign {campaign.name}",
    )
    return _work(campaign, turn, Step.UPGRADING, action)


def _worked(state: State, campaign: Campaign, turn: Turn, now: Instant) -> list[Draft]:
    """Continue after the answer of an action or of checks, or after their time limit."""
    due = due_at(state, campaign, turn)
    if turn.outcome is None:
        if due is None or now < due:
            return []
        return _failed(campaign, turn, f"{turn.step.value}: no answer within its limit")
    if turn.outcome is not ActionOutcome.DONE:
        detail = turn.detail or "no reason was given"
        return _failed(campaign, turn, f"{turn.step.value}: {detail}"[:1024])
    if turn.step is Step.UPGRADING:
        return _check(state, campaign, turn, Step.VALIDATING, "checks")
    if turn.step is Step.VALIDATING:
        return _over(campaign, turn, Step.DONE, "")
    if SECOND_STEP in turn.work_id:
        return _over(campaign, turn, Step.ROLLED_BACK, "")
    return _check(state, campaign, turn, Step.ROLLING_BACK, "back-checks")


def _check(state: State, campaign: Campaign, turn: Turn, step: Step, what: str) -> list[Draft]:
    suite = state.config.suites.get(campaign.spec.suite)
    if suite is None:
        return _failed(campaign, turn, f"{campaign.spec.suite}: {NO_SUITE}")
    checks = ChecksRequested(
        request_id=campaign.request_id(turn, what),
        checks=suite.checks,
        limit_s=suite.limit_s,
        invasive=True,
        reason="validate",
    )
    return _work(campaign, turn, step, checks)


def _over(campaign: Campaign, turn: Turn, step: Step, detail: str) -> list[Draft]:
    """End the turn and return the node to jobs; a person's cordon is separate."""
    said = NodeStepped(
        campaign=campaign.name, step=step, attempt=turn.attempt, detail=detail, cordoned_by=turn.cordoned_by
    )
    return [_stepped(turn, said), _withdrawn(turn, f"campaign {campaign.name} is done here")]


def _failed(campaign: Campaign, turn: Turn, detail: str) -> list[Draft]:
    """Roll back to the version before, if the campaign says so; otherwise the node stays drained."""
    spec = campaign.spec
    version = spec.roll_back_to or turn.version_before
    if spec.roll_back and version and turn.step is not Step.ROLLING_BACK:
        action = NodeActionRequested(
            request_id=campaign.request_id(turn, "back"),
            action=spec.component,
            version=version,
            limit_s=spec.action_limit_s,
            for_what=f"campaign {campaign.name}, rolled back",
        )
        return _work(campaign, turn, Step.ROLLING_BACK, action, detail=detail)
    return [_stepped(turn, NodeStepped(campaign=campaign.name, step=Step.FAILED, attempt=turn.attempt, detail=detail))]


def _work(
    campaign: Campaign, turn: Turn, step: Step, asked: NodeActionRequested | ChecksRequested, *, detail: str = ""
) -> list[Draft]:
    """Yield the step and its request to the agent."""
    said = NodeStepped(
        campaign=campaign.name, step=step, attempt=turn.attempt, request_id=asked.request_id, detail=detail
    )
    name = "action-requested" if isinstance(asked, NodeActionRequested) else "checks-requested"
    return [_stepped(turn, said), _draft(turn, name, asked)]


def _withdrawn(turn: Turn, because: str) -> Draft:
    said = WithholdWithdrawn(request_id=turn.request_id, reason=because, after_withheld=turn.is_withheld)
    return _draft(turn, "withhold-withdrawn", said)


def _stepped(turn: Turn, said: NodeStepped) -> Draft:
    return _draft(turn, "upgrade-stepped", said)


def _draft(turn: Turn, name: str, payload: Payload) -> Draft:
    causes = (turn.last_fact,) if turn.last_fact else ()
    return Draft("node", turn.node, name, payload, causes, together=f"{turn.campaign}.{turn.node}")
