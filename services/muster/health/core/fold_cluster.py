"""Fold facts of other services, and the parts of a checkpoint in any order, into the state of health."""

from collections.abc import Iterator

from muster.cluster import NodeChange
from muster.core import Draft, Fact
from muster.core.folding import Folds
from muster.health.core import fold_health
from muster.health.core.brake import KIND, SUBJECT, Brake
from muster.health.core.state import (
    DEVICE,
    NODE,
    OWN,
    State,
    Unit,
    abandon_requests,
    is_own_request,
    load_orphans,
)
from muster.schemas.base import Payload
from muster.schemas.facts.federation import JobReturned
from muster.schemas.facts.health import (
    OPEN_MAX,
    BrakeResetRequested,
    BrakeState,
    FaultClass,
    FaultMark,
    OwnerToldState,
    Reported,
    UnitState,
    VerifyRequested,
)
from muster.schemas.facts.job import JobFinished, JobRouted, JobRunning, JobState, PodsExited, PodsOutcome
from muster.schemas.facts.node import (
    GrantState,
    NodeJoined,
    NodeLeft,
    NodeLost,
    NodeReturned,
    NodeState,
    Withheld,
    WithholdRequested,
    WithholdWithdrawn,
)
from muster.schemas.facts.operations import (
    ActionOutcome,
    CheckOutcome,
    CheckResult,
    ChecksReported,
    NodeActionEnded,
    PreflightFailed,
)
from muster.schemas.registry import STATE_NAME

FOLDS = Folds[State, None]()


PREFLIGHT = "preflight-failed"
JOBS_OWN = frozenset({"command", "storage"})
"""Checks that depend on the job: its own program, and its own volumes, which it can fill. They keep the job off
the node, and are no evidence against the node."""


# --- nodes ---------------------------------------------------------------------------------------------------------


@FOLDS.on(NODE, "joined", NodeJoined)
def _joined(state: State, fact: Fact, _: NodeJoined) -> None:
    change = state.nodes.apply(fact)
    assert change is not None, "a node that joins is part of the cluster"
    if change.before is None:
        state.fresh.append((fact.subject_id, fact.time))
    _devices_gone(state, change)
    unit = state.node_unit(fact.subject_id)
    if unit is not None:
        state.touch(unit)


def _devices_gone(state: State, change: NodeChange) -> None:
    for uuid in change.gone:
        unit = state.units.get((DEVICE, uuid))
        if unit is not None and unit.node == change.name:
            abandon_requests(state, unit)
            state.drop(unit)


@FOLDS.on(NODE, "lost", NodeLost)
def _lost(state: State, fact: Fact, _: NodeLost) -> None:
    node = fact.subject_id
    if state.nodes.apply(fact) is None:
        return
    own = state.node_unit(node)
    if state.is_in_maintenance(node) or (own is not None and not own.is_healthy):
        return
    state.note_incident(node, fact.time)
    state.unit(NODE, node, node).mark(FaultMark(code="node-lost", fault_class=FaultClass.NOTE, at=fact.time))
    state.judged[node] = None


@FOLDS.on(NODE, "returned", NodeReturned)
def _returned(state: State, fact: Fact, _: NodeReturned) -> None:
    state.nodes.apply(fact)


@FOLDS.on(NODE, "left", NodeLeft)
def _left(state: State, fact: Fact, _: NodeLeft) -> None:
    """Forget a node that left the cluster."""
    node, change = fact.subject_id, state.nodes.apply(fact)
    state.signals.drop_node(node)
    state.judged.pop(node, None)
    if change is not None:
        _devices_gone(state, change)
    unit = state.node_unit(node)
    for one in (*([unit] if unit is not None else []), *state.devices_of(node)):
        abandon_requests(state, one)
        state.drop(one)


# --- who may hold what ---------------------------------------------------------------------------------------------


@FOLDS.on((NODE, DEVICE), "withhold-requested", WithholdRequested)
def _withhold_requested(state: State, fact: Fact, asked: WithholdRequested) -> None:
    unit, request = _unit(state, fact), asked.request_id
    if unit is None:
        if fact.writer == OWN:
            state.orphans[fact.kind, fact.subject_id, request] = False
        return
    if fact.writer == OWN:
        # Repeated more strictly after the answer: no second answer comes.
        unit.is_withheld = unit.is_withheld and request == unit.request_id
        unit.request_id, unit.running = request, asked.running
    else:
        unit.asked_by[request] = fact.writer
    state.requests[request] = unit.key
    state.touch(unit)


@FOLDS.on((NODE, DEVICE), "withheld", Withheld)
def _withheld(state: State, fact: Fact, withheld: Withheld) -> None:
    request = withheld.request_id
    key = state.requests.get(request)
    unit = state.units.get(key) if key is not None else None
    if unit is None:
        if is_own_request(fact.subject_id, request):
            state.orphans[fact.kind, fact.subject_id, request] = True
        return
    if request == unit.request_id:
        unit.is_withheld = True
    elif request == unit.withdrawn_id:
        unit.crossed = True
    elif request in unit.asked_by:
        unit.maintained_by[request] = unit.asked_by.pop(request)
    state.touch(unit)


@FOLDS.on((NODE, DEVICE), "withhold-withdrawn", WithholdWithdrawn)
def _withdrawn(state: State, fact: Fact, withdrawn: WithholdWithdrawn) -> None:
    if fact.writer == OWN:
        fold_health.take_back(state, fact, withdrawn)
        return
    request = withdrawn.request_id
    unit = state.units.get((fact.kind, fact.subject_id))
    if unit is None or (request in unit.maintained_by and not withdrawn.after_withheld):
        return
    unit.asked_by.pop(request, None)
    if unit.maintained_by.pop(request, None) is not None:
        state.signals.unpark(unit.node)
    state.requests.pop(request, None)
    _settle(state, unit)


def _settle(state: State, unit: Unit) -> None:
    if unit.is_empty:
        state.drop(unit)
    else:
        state.touch(unit)


def _unit(state: State, fact: Fact) -> Unit | None:
    if fact.kind == NODE:
        return state.unit(NODE, fact.subject_id, fact.subject_id) if fact.subject_id in state.nodes else None
    known = state.units.get((DEVICE, fact.subject_id))
    if known is not None:
        return known
    node = state.nodes.node_of.get(fact.subject_id)
    return state.unit(DEVICE, fact.subject_id, node) if node is not None else None


# --- jobs ----------------------------------------------------------------------------------------------------------


@FOLDS.on("job", "routed", JobRouted)
def _routed(state: State, fact: Fact, routed: JobRouted) -> None:
    state.owners.describe(fact.subject_id, routed.job.spec.team)


@FOLDS.on("job", ("placed", "resize-requested", "resized", "pods-started", "queued"), Payload)
def _held(state: State, fact: Fact, _: Payload) -> None:
    state.holds.apply(fact)


@FOLDS.on("job", "pods-exited", PodsExited)
def _exited(state: State, fact: Fact, exited: PodsExited) -> None:
    """Record a failed program: its owner's problem, unless programs of many teams fail there; then check the node."""
    state.holds.apply(fact)
    node = exited.node
    if exited.outcome is not PodsOutcome.FAILED or node not in state.nodes:
        return
    team = state.owners.team(fact.subject_id)
    mark = FaultMark(code="pods-failed", fault_class=FaultClass.NOTE, at=fact.time, teams=(team,) if team else ())
    state.unit(NODE, node, node).mark(mark)
    state.judged[node] = None


@FOLDS.on("job", "running", JobRunning)
def _running(state: State, fact: Fact, _: JobRunning) -> None:
    """Forget earlier failures, because the job's checks passed; the scheduler counts in the same way."""
    state.owners.forget(fact.subject_id, PREFLIGHT)


@FOLDS.on("job", ("succeeded", "failed", "cancelled", "timed-out", "returned"), (JobFinished, JobReturned))
def _ended(state: State, fact: Fact, _: JobFinished | JobReturned) -> None:
    state.holds.apply(fact)
    state.owners.end(fact.subject_id)


# --- work on nodes -------------------------------------------------------------------------------------------------


@FOLDS.on(NODE, "action-ended", NodeActionEnded)
def _action_ended(state: State, _fact: Fact, ended: NodeActionEnded) -> None:
    unit = _worked_on(state, ended.request_id)
    if unit is None:
        return
    if ended.outcome is ActionOutcome.DONE:
        unit.work_done = True
    else:
        action = unit.action.value if unit.action is not None else "the repair"
        unit.work_failed = f"{action}: {ended.outcome.value} {ended.detail}".strip()[:1000]
    state.touch(unit)


@FOLDS.on(NODE, "checks-reported", ChecksReported)
def _checks_reported(state: State, fact: Fact, report: ChecksReported) -> None:
    """Record verification checks, of which only passes count; failures of other checks are faults."""
    unit = _worked_on(state, report.request_id)
    if unit is None:
        _failed_checks(state, fact, report.results)
        return
    for result in report.results:
        if result.outcome is CheckOutcome.PASS:
            unit.passed += 1
        elif not unit.work_failed:
            unit.work_failed = f"{result.check}: {result.outcome.value} {result.detail}".strip()[:1000]
    if report.is_last and not unit.work_failed:
        unit.work_done = unit.passed > 0
        unit.work_failed = "" if unit.passed else "no check said anything"
    if report.is_last:
        state.look_at(fact.time, unit)
        state.touch(unit)


@FOLDS.on("job", "preflight-failed", PreflightFailed)
def _preflight_failed(state: State, fact: Fact, failed: PreflightFailed) -> None:
    """Record evidence against the blamed nodes, once for each job: a job that fails everywhere is itself the cause."""
    if state.owners.notified_at(fact.subject_id, PREFLIGHT) is not None:
        return
    state.owners.emit(fact.subject_id, PREFLIGHT, fact.time)
    blamed = (one for one in failed.failed if one.node in failed.nodes and one.check not in JOBS_OWN)
    _failed_checks(state, fact, tuple(blamed))


def _failed_checks(state: State, fact: Fact, results: tuple[CheckResult, ...]) -> None:
    for result in results:
        if result.outcome is not CheckOutcome.FAIL or result.node not in state.nodes:
            continue
        unit = state.unit(NODE, result.node, result.node)
        code = f"check-{result.check}"
        if len(unit.reported) < OPEN_MAX:
            unit.reported[code, result.device] = Reported(
                code=code,
                device=result.device,
                detail=f"{result.code} {result.detail}".strip()[:1000],
                at=fact.time,
                fact=fact.id,
            )
            state.dirty[unit.key] = None


def _worked_on(state: State, request_id: str) -> Unit | None:
    key = state.work.get(request_id) if request_id else None
    return state.units.get(key) if key is not None else None


# --- people --------------------------------------------------------------------------------------------------------


@FOLDS.on(NODE, "verify-forwarded", VerifyRequested)
def _verify(state: State, fact: Fact, asked: VerifyRequested) -> None:
    """Verify a node at a person's request."""
    ill = [unit for unit in (state.node_unit(fact.subject_id), *state.devices_of(fact.subject_id)) if unit is not None]
    for unit in ill:
        if not unit.is_healthy:
            unit.verify_fact, unit.trust = fact.id, asked.trust
            state.touch(unit)


@FOLDS.on(KIND, "brake-reset-forwarded", BrakeResetRequested)
def _brake_reset(state: State, fact: Fact, asked: BrakeResetRequested) -> None:
    state.brake.reset_wish, state.brake.reset_fact = asked, fact.id


@FOLDS.on(NODE, STATE_NAME, NodeState)
def _load_node(state: State, fact: Fact, _: NodeState) -> None:
    state.nodes.apply(fact)
    state.fresh.append((fact.subject_id, fact.time))


@FOLDS.on((NODE, DEVICE), STATE_NAME, GrantState)
def _load_grant(state: State, fact: Fact, stored: GrantState) -> None:
    load_orphans(state, fact.kind, fact.subject_id, stored)


@FOLDS.on("job", STATE_NAME, OwnerToldState)
def _load_notices(state: State, fact: Fact, stored: OwnerToldState) -> None:
    state.owners.load_notices(fact.subject_id, stored)


@FOLDS.on(KIND, STATE_NAME, BrakeState)
def _load_brake(state: State, _fact: Fact, stored: BrakeState) -> None:
    state.brake = Brake.restored(stored, config=state.config.brake)


@FOLDS.on((NODE, DEVICE), STATE_NAME, UnitState)
def _load_unit(state: State, fact: Fact, stored: UnitState) -> None:
    unit = state.put(Unit.restored(stored, kind=fact.kind, name=fact.subject_id))
    state.incidents += len(unit.incidents)
    for request in (unit.request_id, unit.withdrawn_id, *unit.asked_by, *unit.maintained_by):
        if request:
            state.requests[request] = unit.key
            state.orphans.pop((fact.kind, fact.subject_id, request), None)
    if unit.work_id:
        state.work[unit.work_id] = unit.key
        state.look_at(unit.until, unit)
    if not unit.is_healthy:
        state.ill[unit.key] = None
    state.dirty[unit.key] = None
    if fact.kind == NODE:
        state.judged[fact.subject_id] = None


@FOLDS.on("job", STATE_NAME, JobState)
def _load_job(state: State, fact: Fact, job: JobState) -> None:
    if job.phase.is_terminal:
        return
    state.holds.apply(fact)
    state.owners.describe(job.job.id, job.job.spec.team)
    if job.preflight_failures and state.owners.notified_at(job.job.id, PREFLIGHT) is None:
        state.owners.emit(job.job.id, PREFLIGHT, fact.time)


def state_drafts(state: State) -> Iterator[Draft]:
    """Yield health's part of a checkpoint. Nodes are in the agent's part, jobs in the scheduler's."""
    for unit in state.units.values():
        if not unit.is_empty:
            yield Draft(unit.kind, unit.name, STATE_NAME, unit.as_body(UnitState))
    for job, told in state.owners.stored():
        yield Draft("job", job, STATE_NAME, told)
    brake = state.brake
    if brake.tripped is not None or brake.nodes or brake.reset_wish is not None:
        yield Draft(KIND, SUBJECT, STATE_NAME, brake.as_body(BrakeState))
