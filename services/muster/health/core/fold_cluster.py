"""How the facts of others change what health believes: nodes, who may hold them, jobs, work on nodes, people."""

from muster.cluster import HOLD_FACTS, NodeChange
from muster.core import Fact
from muster.health.core import fold_own, strays
from muster.health.core.brake import KIND
from muster.health.core.state import DEVICE, NODE, State
from muster.health.core.table import Fold
from muster.health.core.units import Unit
from muster.schemas.facts.health import OPEN_MAX, BrakeResetRequested, FaultClass, FaultMark, Reported, VerifyRequested
from muster.schemas.facts.job import JobRouted, PodsExited, PodsOutcome
from muster.schemas.facts.node import Withheld, WithholdRequested, WithholdWithdrawn
from muster.schemas.facts.operations import (
    ActionOutcome,
    CheckOutcome,
    CheckResult,
    ChecksReported,
    NodeActionEnded,
    PreflightFailed,
)
from muster.schemas.job import TERMINAL_PHASES

OWN = "health"
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
            strays.abandon(state, unit)
            state.drop(unit)


def _lost(state: State, fact: Fact) -> None:
    node = fact.subject_id
    if state.nodes.apply(fact) is None:
        return
    own = state.node_unit(node)
    if state.is_in_other_hands(node) or (own is not None and not own.is_healthy):
        return
    state.note_incident(node, fact.time)
    state.unit(NODE, node, node).mark(FaultMark(code="node-lost", fault_class=FaultClass.NOTE, at=fact.time))
    state.judged[node] = None


def _returned(state: State, fact: Fact) -> None:
    state.nodes.apply(fact)


def left(state: State, fact: Fact) -> None:
    """The node is no longer part of the cluster: nothing is remembered of it."""
    node, change = fact.subject_id, state.nodes.apply(fact)
    state.sightings.drop_node(node)
    state.judged.pop(node, None)
    if change is not None:
        _devices_gone(state, change)
    unit = state.node_unit(node)
    for one in (*([unit] if unit is not None else []), *state.devices_of(node)):
        strays.abandon(state, one)
        state.drop(one)


# --- who may hold what ---------------------------------------------------------------------------------------------


def _withhold_requested(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, WithholdRequested)
    unit, request = _unit(state, fact), fact.payload.request_id
    if unit is None:
        if fact.writer == OWN:
            state.strays[fact.kind, fact.subject_id, request] = False
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
        if strays.is_own(fact.subject_id, request):
            state.strays[fact.kind, fact.subject_id, request] = True
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
        fold_own.withdrawn(state, fact)
        return
    assert isinstance(fact.payload, WithholdWithdrawn)
    request = fact.payload.request_id
    unit = state.units.get((fact.kind, fact.subject_id))
    if unit is None or (request in unit.maintained_by and not fact.payload.after_withheld):
        return
    unit.asked_by.pop(request, None)
    if unit.maintained_by.pop(request, None) is not None:
        state.sightings.unpark(unit.node)
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
    """Of the checks that show whether something is well: only those that passed count. Others may tell a fault."""
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
    if state.owners.told_at(fact.subject_id, PREFLIGHT) is not None:
        return
    state.owners.tell(fact.subject_id, PREFLIGHT, fact.time)
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
