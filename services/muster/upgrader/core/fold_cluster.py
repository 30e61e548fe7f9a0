"""How facts of jobs and nodes change the state: who holds which node and until when, and who asked to drain it."""

from collections import Counter
from collections.abc import Callable

from muster.cluster import HOLD_FACTS
from muster.core import Fact
from muster.schemas.facts.job import (
    JobQueued,
    JobRouted,
    JobState,
    PodsExited,
)
from muster.schemas.facts.node import (
    Cordon,
    CordonRequested,
    GrantState,
    Withheld,
    WithholdRequested,
    WithholdWithdrawn,
)
from muster.schemas.facts.operations import ActionOutcome, CheckOutcome, ChecksReported, NodeActionEnded
from muster.schemas.facts.upgrade import CampaignSpec, Step
from muster.schemas.registry import STATE_NAME
from muster.upgrader.core.fold_campaigns import note_node
from muster.upgrader.core.state import MINE, Grant, Job, State, Turn


def _routed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobRouted)
    job = fact.payload.job
    if job.id not in state.jobs:
        state.jobs[job.id] = Job(job.id, job.spec, job.spec.total_run_time_s, slice_s=job.spec.min_slice_s)


def _queued(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobQueued)
    _job_held(state, fact)
    job = state.jobs.get(fact.subject_id)
    if job is None:
        return
    payload = fact.payload
    job.ran_s += job.exited_s
    job.exited_s = 0.0
    job.running_at = 0
    job.total_s = job.spec.total_run_time_s if payload.total_run_time_s is None else payload.total_run_time_s
    job.slice_s = job.spec.min_slice_s if payload.min_slice_s is None else payload.min_slice_s


def _running(state: State, fact: Fact) -> None:
    job = state.jobs.get(fact.subject_id)
    if job is not None:
        job.running_at = fact.time
        state.moves += bool(state.campaigns)


def _exited(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, PodsExited)
    _job_held(state, fact)
    job = state.jobs.get(fact.subject_id)
    if job is not None:
        job.exited_s = fact.payload.ran_s


def _job_ended(state: State, fact: Fact) -> None:
    _job_held(state, fact)
    state.jobs.pop(fact.subject_id, None)


def load_job(state: State, fact: Fact) -> None:
    """A job as a checkpoint says."""
    stored = fact.payload
    assert isinstance(stored, JobState)
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


def _job_held(state: State, fact: Fact) -> None:
    """What is held changes; up to then, what was not held of a node that is kept was idle."""
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


JOB_HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    ("job", "routed"): _routed,
    **{("job", name): _job_held for name in HOLD_FACTS},
    ("job", "queued"): _queued,
    ("job", "running"): _running,
    ("job", "pods-exited"): _exited,
    **{("job", name): _job_ended for name in ("succeeded", "failed", "cancelled", "timed-out", "returned")},
}


def _joined(state: State, fact: Fact) -> None:
    state.count_idle(fact.subject_id, fact.time)
    state.nodes.apply(fact)
    note_node(state, fact)


def _lost(state: State, fact: Fact) -> None:
    if state.nodes.apply(fact) is not None:
        state.moves += bool(state.campaigns)


def _node_left(state: State, fact: Fact) -> None:
    """Its turns are over; if it comes again, it gets new ones."""
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


def _withhold_requested(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, WithholdRequested)
    asked, name = fact.payload, fact.subject_id
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


def _withdrawn(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, WithholdWithdrawn)
    name, said = fact.subject_id, fact.payload
    if not state.knows(name):
        return
    state.moves += bool(state.campaigns)
    turn = state.turn_asking(name, said.request_id)
    if turn is not None:
        state.count_idle(name, fact.time)
        turn.request_id, turn.is_withheld, turn.counted_at, turn.freed = "", False, 0, False
        turn.last_fact = fact.id
        campaign = state.campaigns[turn.campaign]
        if campaign.ended is not None:
            campaign.drop(name)
    grant = state.grant(name)
    grant.withdraw(said.request_id, after_withheld=said.after_withheld)
    if not any(wish.by == MINE and wish.answered for wish in grant.wishes):
        state.strays.pop(name, None)
    state.drop_empty_grant(name)


def _withheld(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, Withheld)
    name, request_id = fact.subject_id, fact.payload.request_id
    if not state.knows(name):
        return
    state.moves += bool(state.campaigns)
    grant, turn = state.grant(name), state.turn_asking(name, request_id)
    if grant.wish(request_id) is not None or _is_ours(state, request_id):
        grant.answer(request_id, fact=fact.id)
    state.drop_empty_grant(name)
    if turn is None:
        state.strays[name] = None
    if turn is not None and not fact.payload.holders:
        turn.is_withheld, turn.last_fact = True, fact.id


def _is_ours(state: State, request_id: str) -> bool:
    return request_id.partition(".")[0] in state.campaigns


def _released(state: State, fact: Fact) -> None:
    if state.knows(fact.subject_id):
        _drop_answered(state, fact.subject_id)
        state.moves += bool(state.campaigns)


def _cordoned(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, CordonRequested)
    asked = fact.payload
    state.grant(fact.subject_id).cordon = Cordon(
        principal=asked.principal,
        reason=asked.reason,
        draining=fact.name == "drain-forwarded",
        since=fact.time,
        fact=fact.id,
    )
    state.moves += bool(state.campaigns)


def _resumed(state: State, fact: Fact) -> None:
    """A person wants the node used again; that frees one whose upgrade failed, too."""
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


def _action_ended(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, NodeActionEnded)
    for turn in state.turns_on(fact.subject_id):
        if turn.work_id and turn.work_id == fact.payload.request_id and turn.outcome is None:
            ended, wanted = fact.payload, _version_wanted(state.campaigns[turn.campaign].spec, turn)
            if ended.outcome is ActionOutcome.DONE and ended.version and wanted and ended.version != wanted:
                _settle_turn(state, turn, fact, ActionOutcome.FAILED, f"it has version {ended.version}, not {wanted}")
            else:
                _settle_turn(state, turn, fact, ended.outcome, ended.detail)


def _version_wanted(spec: CampaignSpec, turn: Turn) -> str:
    return spec.version if turn.step is Step.UPGRADING else spec.roll_back_to or turn.version_before


def _checks_reported(state: State, fact: Fact) -> None:
    """What failed ends the checks, and what could not run where the suite says so; else the last report does."""
    assert isinstance(fact.payload, ChecksReported)
    report = fact.payload
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


def load_grant(state: State, name: str, stored: GrantState) -> None:
    """Who keeps jobs from a node, as a checkpoint says."""
    if stored.wishes or stored.cordon is not None:
        state.grants[name] = Grant(stored.wishes, stored.cordon)
        if any(wish.by == MINE and wish.answered for wish in stored.wishes):
            state.strays[name] = None


NODE_HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    ("node", "joined"): _joined,
    ("node", "lost"): _lost,
    ("node", "returned"): _lost,
    ("node", "left"): _node_left,
    ("node", "withhold-requested"): _withhold_requested,
    ("node", "withhold-withdrawn"): _withdrawn,
    ("node", "withheld"): _withheld,
    ("node", "released"): _released,
    ("node", "cordon-forwarded"): _cordoned,
    ("node", "drain-forwarded"): _cordoned,
    ("node", "resume-forwarded"): _resumed,
    ("node", "action-ended"): _action_ended,
    ("node", "checks-reported"): _checks_reported,
}
