"""Fold facts of jobs and nodes: who holds which node until when, and who asked to drain it."""

from collections import Counter

from muster.core import Fact
from muster.core.folding import Folds
from muster.schemas.base import Payload
from muster.schemas.facts.federation import JobReturned
from muster.schemas.facts.job import (
    JobFinished,
    JobQueued,
    JobRouted,
    JobRunning,
    JobState,
    PodsExited,
)
from muster.schemas.facts.job_requests import JobEdited
from muster.schemas.facts.node import (
    Cordon,
    CordonRequested,
    GrantState,
    NodeJoined,
    NodeLeft,
    NodeLost,
    NodeReturned,
    NodeState,
    Released,
    Withheld,
    WithholdRequested,
    WithholdWithdrawn,
)
from muster.schemas.facts.operations import ActionOutcome, CheckOutcome, ChecksReported, NodeActionEnded
from muster.schemas.facts.upgrade import CampaignSpec, Step
from muster.schemas.registry import STATE_NAME
from muster.upgrader.core.fold_campaigns import note_node
from muster.upgrader.core.state import MINE, Grant, Job, State, Turn

FOLDS = Folds[State, None]()


@FOLDS.on("job", "routed", JobRouted)
def _routed(state: State, _fact: Fact, routed: JobRouted) -> None:
    job = routed.job
    if job.id not in state.jobs:
        state.jobs[job.id] = Job(job.id, job.spec, job.spec.total_run_time_s, slice_s=job.spec.min_slice_s)


@FOLDS.on("job", "queued", JobQueued)
def _queued(state: State, fact: Fact, queued: JobQueued) -> None:
    _job_held(state, fact)
    job = state.jobs.get(fact.subject_id)
    if job is None:
        return
    job.ran_s += job.exited_s
    job.exited_s = 0.0
    job.running_at = 0
    job.total_s = job.spec.total_run_time_s if queued.total_run_time_s is None else queued.total_run_time_s
    job.slice_s = job.spec.min_slice_s if queued.min_slice_s is None else queued.min_slice_s


@FOLDS.on("job", "edited", JobEdited)
def _edited(state: State, fact: Fact, edited: JobEdited) -> None:
    job = state.jobs.get(fact.subject_id)
    if job is not None:
        job.total_s, job.slice_s = edited.total_run_time_s, edited.min_slice_s


@FOLDS.on("job", "running", JobRunning)
def _running(state: State, fact: Fact, _: JobRunning) -> None:
    job = state.jobs.get(fact.subject_id)
    if job is not None:
        job.running_at = fact.time
        state.moves += bool(state.campaigns)


@FOLDS.on("job", "pods-exited", PodsExited)
def _exited(state: State, fact: Fact, exited: PodsExited) -> None:
    _job_held(state, fact)
    job = state.jobs.get(fact.subject_id)
    if job is not None:
        job.exited_s = exited.ran_s


@FOLDS.on("job", ("succeeded", "failed", "cancelled", "timed-out", "returned"), (JobFinished, JobReturned))
def _job_ended(state: State, fact: Fact, _: JobFinished | JobReturned) -> None:
    _job_held(state, fact)
    state.jobs.pop(fact.subject_id, None)


@FOLDS.on("job", STATE_NAME, JobState)
def _load_job(state: State, fact: Fact, stored: JobState) -> None:
    """Restore a job from a checkpoint."""
    if stored.phase.is_terminal:
        return
    spec = stored.job.spec
    state.jobs[stored.job.id] = Job(
        stored.job.id,
        spec,
        spec.total_run_time_s if stored.total_run_time_s is None else stored.total_run_time_s,
        slice_s=spec.min_slice_s if stored.min_slice_s is None else stored.min_slice_s,
        ran_s=stored.ran_s,
        exited_s=stored.exited.ran_s if stored.exited is not None else 0.0,
        running_at=stored.running_at,
    )
    _job_held(state, fact)


@FOLDS.on("job", ("placed", "resize-requested", "resized", "pods-started"), Payload)
def _held(state: State, fact: Fact, _: Payload) -> None:
    _job_held(state, fact)


def _job_held(state: State, fact: Fact) -> None:
    """Update held devices; until then, the free ones of a kept node were idle."""
    change = state.holds.apply(fact)
    if change is None:
        return
    taken_milli: Counter[str] = Counter()
    for slot in change.taken:
        taken_milli[slot.node] += slot.gpu_milli_held
    for slot in change.freed:
        taken_milli[slot.node] -= slot.gpu_milli_held
    for name, milli in taken_milli.items():
        if state.campaigns and fact.name != STATE_NAME:
            state.count_idle(name, fact.time, taken_milli=milli)
            state.moves += 1


@FOLDS.on("node", "joined", NodeJoined)
def _joined(state: State, fact: Fact, joined: NodeJoined) -> None:
    state.count_idle(fact.subject_id, fact.time)
    state.nodes.apply(fact)
    note_node(state, fact, joined)


@FOLDS.on("node", STATE_NAME, NodeState)
def _load_node(state: State, fact: Fact, _: NodeState) -> None:
    state.nodes.apply(fact)


@FOLDS.on("node", ("lost", "returned"), (NodeLost, NodeReturned))
def _lost(state: State, fact: Fact, _: NodeLost | NodeReturned) -> None:
    if state.nodes.apply(fact) is not None:
        state.moves += bool(state.campaigns)


@FOLDS.on("node", "left", NodeLeft)
def _node_left(state: State, fact: Fact, _: NodeLeft) -> None:
    """End the turns of a node that left; if it comes again, it gets new ones."""
    name = fact.subject_id
    state.count_idle(name, fact.time)
    if state.nodes.apply(fact) is None:
        return
    _drop_answered(state, name)
    state.strays.pop(name, None)
    for campaign in state.campaigns.values():
        campaign.drop(name)
    state.moves += bool(state.campaigns)


def _drop_answered(state: State, name: str) -> None:
    grant = state.grants.get(name)
    if grant is not None:
        grant.drop_answered()
        state.drop_empty_grant(name)


@FOLDS.on("node", "withhold-requested", WithholdRequested)
def _withhold_requested(state: State, fact: Fact, asked: WithholdRequested) -> None:
    name = fact.subject_id
    state.grant(name).ask(asked, fact=fact.id, by=fact.writer)
    state.moves += bool(state.campaigns)
    if fact.writer != MINE:
        return
    campaign = state.campaigns.get(asked.request_id.partition(".")[0])
    turn = campaign.turns.get(name) if campaign is not None else None
    if campaign is None or turn is None or not asked.request_id.startswith(campaign.request_prefix):
        state.anomalies["withhold requested for no turn"] += 1
        return
    if turn.request_id != asked.request_id:
        turn.asks += 1
        turn.request_id, turn.is_withheld, turn.counted_at = asked.request_id, False, fact.time
    turn.from_at, turn.running = asked.from_at, asked.running
    turn.last_fact = fact.id


@FOLDS.on("node", "withhold-withdrawn", WithholdWithdrawn)
def _withdrawn(state: State, fact: Fact, withdrawn: WithholdWithdrawn) -> None:
    name = fact.subject_id
    if not state.knows(name):
        return
    state.moves += bool(state.campaigns)
    turn = state.turn_asking(name, withdrawn.request_id)
    if turn is not None:
        state.count_idle(name, fact.time)
        turn.request_id, turn.is_withheld, turn.counted_at, turn.freed = "", False, 0, False
        turn.last_fact = fact.id
        campaign = state.campaigns[turn.campaign]
        if campaign.ended is not None:
            campaign.drop(name)
    grant = state.grant(name)
    grant.withdraw(withdrawn.request_id, after_withheld=withdrawn.after_withheld)
    if not any(request.by == MINE and request.answered for request in grant.wishes):
        state.strays.pop(name, None)
    state.drop_empty_grant(name)


@FOLDS.on("node", "withheld", Withheld)
def _withheld(state: State, fact: Fact, withheld: Withheld) -> None:
    name, request_id = fact.subject_id, withheld.request_id
    if not state.knows(name):
        return
    state.moves += bool(state.campaigns)
    grant, turn = state.grant(name), state.turn_asking(name, request_id)
    if grant.wish(request_id) is not None or _is_ours(state, request_id):
        grant.answer(request_id, fact=fact.id)
    state.drop_empty_grant(name)
    if turn is None:
        state.strays[name] = None
    if turn is not None and not withheld.holders:
        turn.is_withheld, turn.last_fact = True, fact.id


def _is_ours(state: State, request_id: str) -> bool:
    return request_id.partition(".")[0] in state.campaigns


@FOLDS.on("node", "released", Released)
def _released(state: State, fact: Fact, _: Released) -> None:
    if state.knows(fact.subject_id):
        _drop_answered(state, fact.subject_id)
        state.moves += bool(state.campaigns)


@FOLDS.on("node", ("cordon-forwarded", "drain-forwarded"), CordonRequested)
def _cordoned(state: State, fact: Fact, asked: CordonRequested) -> None:
    state.grant(fact.subject_id).cordon = Cordon(
        principal=asked.principal,
        reason=asked.reason,
        draining=fact.name == "drain-forwarded",
        since=fact.time,
        fact=fact.id,
    )
    state.moves += bool(state.campaigns)


@FOLDS.on("node", "resume-forwarded", CordonRequested)
def _resumed(state: State, fact: Fact, _: CordonRequested) -> None:
    """Record a person's request to use the node again, which also frees a node whose upgrade failed."""
    name = fact.subject_id
    if not state.knows(name):
        return
    state.grant(name).cordon = None
    state.drop_empty_grant(name)
    state.count_idle(name, fact.time)
    for turn in state.turns_on(name):
        if turn.step is Step.FAILED and turn.request_id:
            turn.freed, turn.last_fact = True, fact.id
    state.moves += bool(state.campaigns)


@FOLDS.on("node", "action-ended", NodeActionEnded)
def _action_ended(state: State, fact: Fact, ended: NodeActionEnded) -> None:
    for turn in state.turns_on(fact.subject_id):
        if turn.work_id and turn.work_id == ended.request_id and turn.outcome is None:
            wanted = _version_wanted(state.campaigns[turn.campaign].spec, turn)
            if ended.outcome is ActionOutcome.DONE and ended.version and wanted and ended.version != wanted:
                _settle_turn(state, turn, fact, ActionOutcome.FAILED, f"it has version {ended.version}, not {wanted}")
            else:
                _settle_turn(state, turn, fact, ended.outcome, ended.detail)


def _version_wanted(spec: CampaignSpec, turn: Turn) -> str:
    return spec.version if turn.step is Step.UPGRADING else spec.roll_back_to or turn.version_before


@FOLDS.on("node", "checks-reported", ChecksReported)
def _checks_reported(state: State, fact: Fact, report: ChecksReported) -> None:
    """Record the end of checks: at a failure, at a check that could not run if the suite says so, or at the last
    report."""
    for turn in state.turns_on(fact.subject_id):
        if not turn.work_id or turn.work_id != report.request_id or turn.outcome is not None:
            continue
        suite = state.config.suites.get(state.campaigns[turn.campaign].spec.suite)
        passes = (CheckOutcome.PASS, CheckOutcome.CANNOT_RUN) if suite is None or suite.cannot_run_passes else _PASS
        bad = [one for one in report.results if one.outcome not in passes]
        bad.sort(key=lambda one: one.outcome is not CheckOutcome.FAIL)
        if bad:
            said = "failed" if bad[0].outcome is CheckOutcome.FAIL else "could not run"
            detail = f"check {bad[0].check} {said}{': ' if bad[0].detail else ''}{bad[0].detail}"[:1024]
            _settle_turn(state, turn, fact, ActionOutcome.FAILED, detail)
        elif report.is_last:
            _settle_turn(state, turn, fact, ActionOutcome.DONE, "")


_PASS = (CheckOutcome.PASS,)


def _settle_turn(state: State, turn: Turn, fact: Fact, outcome: ActionOutcome, detail: str) -> None:
    turn.outcome, turn.detail, turn.last_fact = outcome, detail, fact.id
    state.moves += 1


@FOLDS.on("node", STATE_NAME, GrantState)
def _load_grant(state: State, fact: Fact, stored: GrantState) -> None:
    """Restore requests to drain a node from a checkpoint."""
    if stored.wishes or stored.cordon is not None:
        state.grants[fact.subject_id] = Grant(stored.wishes, stored.cordon)
        if any(request.by == MINE and request.answered for request in stored.wishes):
            state.strays[fact.subject_id] = None
