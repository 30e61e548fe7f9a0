"""Fold health's own facts: faults, phases, requests, the brake."""

from muster.core import NEVER, Fact, Instant
from muster.core.folding import Folds
from muster.health.core.brake import KIND
from muster.health.core.patrol import DEEP, PERIODIC, is_deep_alone
from muster.health.core.state import DEVICE, NODE, State, Unit, mark_of
from muster.schemas.conditions import EndedIllness
from muster.schemas.facts.health import (
    BrakeReset,
    BrakeTripped,
    FaultCleared,
    FaultObserved,
    FaultScope,
    HealthMoved,
    HealthPhase,
)
from muster.schemas.facts.node import WithholdWithdrawn
from muster.schemas.facts.operations import ChecksRequested, JobFault

FOLDS = Folds[State, None]()

OWN = "health"
LEMON = "lemon"
"""Fault of a node that fails much more often than others."""
MOVES = tuple(phase.value for phase in HealthPhase)


@FOLDS.on(NODE, "fault-observed", FaultObserved)
def _observed(state: State, fact: Fact, told: FaultObserved) -> None:
    node = fact.subject_id
    for device in (told.device, *told.more_devices):
        state.signals.take(node, device, told.code)
    if node not in state.nodes:
        state.anomalies["fault-observed of no node"] += 1
        return
    own = state.unit(NODE, node, node)
    for device in (told.device, *told.more_devices):
        own.mark(mark_of(told, device, fact.time))
    own.reported.pop((told.code, told.device), None)
    state.judged[node] = None
    state.counted[told.code, told.fault_class] += told.count
    if not told.is_condition and (not told.fault_class.is_hardware or told.store_only):
        return  # it happened, and nothing follows
    is_devices = told.scope is FaultScope.DEVICE and bool(told.device) and own.is_healthy
    unit = state.unit(DEVICE, told.device, node) if is_devices else own
    unit.observe(told, at=fact.time, fact=fact.id)
    state.touch(unit)


@FOLDS.on(NODE, "fault-cleared", FaultCleared)
def _cleared(state: State, fact: Fact, over: FaultCleared) -> None:
    state.signals.take(fact.subject_id, over.device, over.code)
    unit = state.unit_with(fact.subject_id, over.device, over.code)
    if unit is None:
        state.anomalies["fault-cleared of none"] += 1
        return
    del unit.faults[over.code, over.device]
    state.touch(unit)


@FOLDS.on((NODE, DEVICE), MOVES, HealthMoved)
def _moved(state: State, fact: Fact, moved: HealthMoved) -> None:
    if moved.node not in state.nodes:
        state.anomalies["moved of no node"] += 1  # it left before that was reported
        return
    unit = state.unit(fact.kind, fact.subject_id, moved.node)
    unit.phase, unit.since, unit.moved_fact = HealthPhase(fact.name), fact.time, fact.id
    unit.incident, unit.attempt, unit.action = moved.incident, moved.attempt, moved.action
    unit.needs_person, unit.because = moved.needs_person, moved.because
    state.work.pop(unit.work_id, None)
    unit.work_id, unit.until = moved.work_id, Instant(moved.until)
    unit.work_done, unit.work_failed, unit.passed = False, "", 0
    if moved.work_id:
        state.work[moved.work_id] = unit.key
        state.look_at(unit.until, unit)
    match unit.phase:
        case HealthPhase.SUSPECT:
            _fell_ill(state, unit, fact)
        case HealthPhase.VERIFYING:
            unit.verify_fact = ""
            state.signals.unpark(unit.node)
        case HealthPhase.QUARANTINED:
            if unit.verify_fact in fact.causes:  # that is the answer: nothing could be checked
                unit.verify_fact = ""
            state.signals.unpark(unit.node)
        case HealthPhase.HEALTHY:
            _recovered(state, unit, fact)
        case _:
            pass
    state.touch(unit)


def _fell_ill(state: State, unit: Unit, fact: Fact) -> None:
    unit.began_at = fact.time
    if is_deep_alone(unit):
        return
    state.brake.count(unit.node, fact.time)
    if all(one.told.code == LEMON for one in unit.grave):
        return  # it is drained for its history, which is not a further fault
    state.note_incident(unit.node, fact.time)
    state.judged[unit.node] = None


def _recovered(state: State, unit: Unit, fact: Fact) -> None:
    codes = tuple(dict.fromkeys(one.told.code for one in unit.grave))
    state.history.append(
        EndedIllness(
            kind=unit.kind,
            name=unit.name,
            node=unit.node,
            codes=codes,
            began_at=unit.began_at,
            ended_at=fact.time,
            attempts=unit.attempt,
        )
    )
    was_checked = unit.needs_checks
    if DEEP in codes:
        unit.deep_at = fact.time
    unit.faults = {key: one for key, one in unit.faults.items() if not one.told.fault_class.is_hardware}
    unit.attempt, unit.needs_person, unit.needs_checks = 0, False, False
    unit.verify_fact, unit.trust = "", False
    if unit.kind == NODE and was_checked:
        for device in state.devices_of(unit.name):
            _came_through(device)
    state.signals.unpark(unit.node)


def _came_through(device: Unit) -> None:
    """Clear events of a device whose node passed its checks; lasting faults stay."""
    device.faults = {key: one for key, one in device.faults.items() if one.told.is_condition}
    device.attempt, device.needs_person, device.needs_checks = 0, False, False


def take_back(state: State, fact: Fact, withdrawn: WithholdWithdrawn) -> None:
    """Fold a withdrawal of health's own request."""
    unit = state.units.get((fact.kind, fact.subject_id))
    request, orphan = withdrawn.request_id, (fact.kind, fact.subject_id, withdrawn.request_id)
    if withdrawn.after_withheld or not state.orphans.get(orphan, True):
        state.orphans.pop(orphan, None)
    if unit is None:
        return
    if withdrawn.after_withheld:
        state.requests.pop(request, None)
        if request == unit.withdrawn_id:
            unit.withdrawn_id, unit.crossed = "", False
    else:
        state.requests.pop(unit.withdrawn_id, None)
        unit.withdrawn_id, unit.crossed = request, unit.is_withheld and request == unit.request_id
    if request == unit.request_id:
        unit.request_id, unit.is_withheld = "", False
    state.touch(unit)


@FOLDS.on(NODE, "checks-requested", ChecksRequested)
def _checks_requested(state: State, fact: Fact, asked: ChecksRequested) -> None:
    if fact.writer == OWN and asked.reason == PERIODIC and fact.subject_id in state.nodes:
        state.unit(NODE, fact.subject_id, fact.subject_id).checked_at = fact.time


@FOLDS.on("job", "fault-told", JobFault)
def _owner_notice(state: State, fact: Fact, fault: JobFault) -> None:
    state.owners.emit(fact.subject_id, fault.code, Instant(fault.at) or fact.time)


@FOLDS.on(KIND, "brake-tripped", BrakeTripped)
def _tripped(state: State, fact: Fact, tripped: BrakeTripped) -> None:
    state.brake.tripped, state.brake.tripped_at = tripped, fact.time


@FOLDS.on(KIND, "brake-reset", BrakeReset)
def _reset(state: State, _fact: Fact, reset: BrakeReset) -> None:
    brake = state.brake
    brake.tripped, brake.tripped_at, brake.reset_wish, brake.reset_fact = None, NEVER, None, ""
    brake.nodes.clear()
    for unit in state.units.values():  # a person did this: it happens once in a long while
        if reset.skip and unit.is_healthy:
            unit.faults.clear()
        state.touch(unit)
