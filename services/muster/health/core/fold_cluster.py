"""How facts of other services, and the parts of a checkpoint in any order, change the state of health."""

from collections.abc import Iterator

from muster.cluster import HOLD_FACTS, NodeChange
from muster.core import Draft, Fact
from muster.health.core import fold_health
from muster.health.core.brake import KIND, SUBJECT, Brake
from muster.health.core.state import (
    DEVICE,
    NODE,
    OWN,
    Fold,
    State,
    Unit,
    abandon_requests,
    is_own_request,
    load_orphans,
)
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
from muster.schemas.facts.job import JobRouted, JobState, PodsExited, PodsOutcome
from muster.schemas.facts.node import GrantState, NodeState, Withheld, WithholdRequested, WithholdWithdrawn
from muster.schemas.facts.operations import (
    ActionOutcome,
    CheckOutcome,
    CheckResult,
    ChecksReported,
    NodeActionEnded,
    PreflightFailed,
)
from muster.schemas.job import TERMINAL_PHASES
from muster.schemas.registry import STATE_NAME

PREFLIGHT = "preflight-failed"
JOBS_OWN = frozenset({"command", "storage"})
"""Checks before a job's first step that depend on the job: a program of its own, and its own volumes, which it can
fill. They keep the job off the node, and prove nothing of the node."""


# --- nodes ---------------------------------------------------------------------------------------------------------


def _joined(state: State, fact: Fact) -> None:
    change = state.nodes.apply(fact)
    assert change is not None, "whoever joins is part of the cluster"
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


def _lost(state: State, fact: Fact) -> None:
    node = fact.subject_id
    if state.nodes.apply(fact) is None:
        return
    own = state.node_unit(node)
    if state.is_in_maintenance(node) or (own is not None and not own.is_healthy):
        return
    state.note_incident(node, fact.time)
    state.unit(NODE, node, node).mark(FaultMark(code="node-lost", fault_class=FaultClass.NOTE, at=fact.time))
    state.judged[node] = None


def _returned(state: State, fact: Fact) -> None:
    state.nodes.apply(fact)


def left(state: State, fact: Fact) -> None:
    """The node is no longer part of the cluster: nothing is remembered of it."""
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


def _withhold_requested(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, WithholdRequested)
    unit, request = _unit(state, fact), fact.payload.request_id
    if unit is None:
        if fact.writer == OWN:
            state.orphans[fact.kind, fact.subject_id, request] = False
        return
    if fact.writer == OWN:
        # Asked again, more strictly, of who has answered already: no second answer comes.
        unit.is_withheld = unit.is_withheld and request == unit.request_id
        unit.request_id, unit.running = request, fact.payload.running
    else:
        unit.asked_by[request] = fact.writer
    state.requests[request] = unit.key
    state.touch(unit)


def _withheld(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, Withheld)
    request = fact.payload.request_id
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


def _withdrawn(state: State, fact: Fact) -> None:
    if fact.writer == OWN:
        fold_health.withdrawn(state, fact)
        return
    assert isinstance(fact.payload, WithholdWithdrawn)
    request = fact.payload.request_id
    unit = state.units.get((fact.kind, fact.subject_id))
    if unit is None or (request in unit.maintained_by and not fact.payload.after_withheld):
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


def _routed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobRouted)
    state.owners.describe(fact.subject_id, fact.payload.job.spec.team)


def _held(state: State, fact: Fact) -> None:
    state.holds.apply(fact)


def _exited(state: State, fact: Fact) -> None:
    """A program that failed is its owner's matter; where many teams' programs fail, the node is checked."""
    assert isinstance(fact.payload, PodsExited)
    state.holds.apply(fact)
    node = fact.payload.node
    if fact.payload.outcome is not PodsOutcome.FAILED or node not in state.nodes:
        return
    team = state.owners.team(fact.subject_id)
    mark = FaultMark(code="pods-failed", fault_class=FaultClass.NOTE, at=fact.time, teams=(team,) if team else ())
    state.unit(NODE, node, node).mark(mark)
    state.judged[node] = None


def _running(state: State, fact: Fact) -> None:
    """Its checks passed, or had none: should they fail another time, that is news, as the scheduler counts as well."""
    state.owners.forget(fact.subject_id, PREFLIGHT)


def _ended(state: State, fact: Fact) -> None:
    state.holds.apply(fact)
    state.owners.end(fact.subject_id)


# --- work on nodes -------------------------------------------------------------------------------------------------


def _action_ended(state: State, fact: Fact) -> None:
    ended = fact.payload
    assert isinstance(ended, NodeActionEnded)
    unit = _worked_on(state, ended.request_id)
    if unit is None:
        return
    if ended.outcome is ActionOutcome.DONE:
        unit.work_done = True
    else:
        action = unit.action.value if unit.action is not None else "the repair"
        unit.work_failed = f"{action}: {ended.outcome.value} {ended.detail}".strip()[:1000]
    state.touch(unit)


def _checks_reported(state: State, fact: Fact) -> None:
    """Of the checks that show whether something is well: only those that passed count. Others may emit a fault."""
    report = fact.payload
    assert isinstance(report, ChecksReported)
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


def _preflight_failed(state: State, fact: Fact) -> None:
    """Evidence against the nodes that are blamed; only once for each job: what fails wherever it goes is the job."""
    failed = fact.payload
    assert isinstance(failed, PreflightFailed)
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


def _verify(state: State, fact: Fact) -> None:
    """A person looked after a node, or after what is ill of it."""
    assert isinstance(fact.payload, VerifyRequested)
    ill = [unit for unit in (state.node_unit(fact.subject_id), *state.devices_of(fact.subject_id)) if unit is not None]
    for unit in ill:
        if not unit.is_healthy:
            unit.verify_fact, unit.trust = fact.id, fact.payload.trust
            state.touch(unit)


def _brake_reset(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, BrakeResetRequested)
    state.brake.reset_wish, state.brake.reset_fact = fact.payload, fact.id


HANDLERS: dict[tuple[str, str], Fold] = {
    (NODE, "joined"): _joined,
    (NODE, "lost"): _lost,
    (NODE, "returned"): _returned,
    (NODE, "left"): left,
    **{(kind, "withhold-requested"): _withhold_requested for kind in (NODE, DEVICE)},
    **{(kind, "withheld"): _withheld for kind in (NODE, DEVICE)},
    **{(kind, "withhold-withdrawn"): _withdrawn for kind in (NODE, DEVICE)},
    ("job", "routed"): _routed,
    **{("job", name): _held for name in HOLD_FACTS},
    ("job", "pods-exited"): _exited,
    ("job", "running"): _running,
    ("job", "returned"): _ended,  # to the federation: it is another cluster's from here on
    **{("job", phase.value): _ended for phase in TERMINAL_PHASES},
    (NODE, "action-ended"): _action_ended,
    (NODE, "checks-reported"): _checks_reported,
    ("job", "preflight-failed"): _preflight_failed,
    (NODE, "verify-forwarded"): _verify,
    (KIND, "brake-reset-forwarded"): _brake_reset,
}


def _state_recorded(state: State, fact: Fact) -> None:
    match fact.payload:
        case UnitState() as stored:
            _load_unit(state, fact.kind, fact.subject_id, stored)
        case NodeState():
            state.nodes.apply(fact)
            state.fresh.append((fact.subject_id, fact.time))
        case GrantState() as grant:
            load_orphans(state, fact.kind, fact.subject_id, grant)
        case JobState() as job:
            _load_job(state, job, fact)
        case OwnerToldState() as told:
            state.owners.load_notices(fact.subject_id, told)
        case BrakeState() as brake:
            state.brake = Brake.restored(brake, config=state.config.brake)
        case _:
            return  # another service's view of its own subjects


def _load_unit(state: State, kind: str, name: str, stored: UnitState) -> None:
    unit = state.put(Unit.restored(stored, kind=kind, name=name))
    state.incidents += len(unit.incidents)
    for request in (unit.request_id, unit.withdrawn_id, *unit.asked_by, *unit.maintained_by):
        if request:
            state.requests[request] = unit.key
            state.orphans.pop((kind, name, request), None)
    if unit.work_id:
        state.work[unit.work_id] = unit.key
        state.look_at(unit.until, unit)
    if not unit.is_healthy:
        state.ill[unit.key] = None
    state.dirty[unit.key] = None
    if kind == NODE:
        state.judged[name] = None


def _load_job(state: State, job: JobState, fact: Fact) -> None:
    if job.phase.is_terminal:
        return
    state.holds.apply(fact)
    state.owners.describe(job.job.id, job.job.spec.team)
    if job.preflight_failures and state.owners.notified_at(job.job.id, PREFLIGHT) is None:
        state.owners.emit(job.job.id, PREFLIGHT, fact.time)


def state_drafts(state: State) -> Iterator[Draft]:
    """Health's part of a checkpoint. Nodes come with the agent's part, jobs with the scheduler's."""
    for unit in state.units.values():
        if not unit.is_empty:
            yield Draft(unit.kind, unit.name, STATE_NAME, unit.as_body(UnitState))
    for job, told in state.owners.stored():
        yield Draft("job", job, STATE_NAME, told)
    brake = state.brake
    if brake.tripped is not None or brake.nodes or brake.reset_wish is not None:
        yield Draft(KIND, SUBJECT, STATE_NAME, brake.as_body(BrakeState))


STATE_HANDLERS: dict[tuple[str, str], Fold] = {
    (kind, STATE_NAME): _state_recorded for kind in (NODE, DEVICE, "job", KIND)
}
