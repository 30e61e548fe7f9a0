"""How health's own facts change what it believes: faults, moves between states, requests, the brake."""

from muster.core import NEVER, Fact, Instant
from muster.health.core.brake import KIND
from muster.health.core.patrol import DEEP, PERIODIC, is_deep_alone
from muster.health.core.state import DEVICE, NODE, Fold, State, Unit, mark_of
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


def _observed(state: State, fact: Fact) -> None:
    told = fact.payload
    assert isinstance(told, FaultObserved)
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


def _cleared(state: State, fact: Fact) -> None:
    over = fact.payload
    assert isinstance(over, FaultCleared)
    state.signals.take(fact.subject_id, over.device, over.code)
    unit = state.unit_with(fact.subject_id, over.device, over.code)
    if unit is None:
        state.anomalies["fault-cleared of none"] += 1
        return
    del unit.faults[over.code, over.device]
    state.touch(unit)


def _moved(state: State, fact: Fact) -> None:
    moved = fact.payload
    assert isinstance(moved, HealthMoved)
    if moved.node not in state.nodes:
        state.anomalies["moved of no node"] += 1  # it left before that was said
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
        return  # what it is withheld for is its history: that is no further illness
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
    """The whole node was checked: what had happened to the device is over, what lasts still lasts."""
    device.faults = {key: one for key, one in device.faults.items() if one.told.is_condition}
    device.attempt, device.needs_person, device.needs_checks = 0, False, False


def _withdrawn(state: State, fact: Fact) -> None:
    unit = state.units.get((fact.kind, fact.subject_id))
    payload = fact.payload
    assert isinstance(payload, WithholdWithdrawn)
    request, orphan = payload.request_id, (fact.kind, fact.subject_id, payload.request_id)
    if payload.after_withheld or not state.orphans.get(orphan, True):
        state.orphans.pop(orphan, None)
    if unit is None:
        return
    if payload.after_withheld:
        state.requests.pop(request, None)
        if request == unit.withdrawn_id:
            unit.withdrawn_id, unit.crossed = "", False
    else:
        state.requests.pop(unit.withdrawn_id, None)
        unit.withdrawn_id, unit.crossed = request, unit.is_withheld and request == unit.request_id
    if request == unit.request_id:
        unit.request_id, unit.is_withheld = "", False
    state.touch(unit)


def _checks_requested(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, ChecksRequested)
    if fact.writer == OWN and fact.payload.reason == PERIODIC and fact.subject_id in state.nodes:
        state.unit(NODE, fact.subject_id, fact.subject_id).checked_at = fact.time


def _owner_notice(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobFault)
    state.owners.emit(fact.subject_id, fact.payload.code, Instant(fact.payload.at) or fact.time)


def _tripped(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, BrakeTripped)
    state.brake.tripped, state.brake.tripped_at = fact.payload, fact.time


def _reset(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, BrakeReset)
    brake = state.brake
    brake.tripped, brake.tripped_at, brake.reset_wish, brake.reset_fact = None, NEVER, None, ""
    brake.nodes.clear()
    for unit in state.units.values():  # a person did this: it happens once in a long while
        if fact.payload.skip and unit.is_healthy:
            unit.faults.clear()
        state.touch(unit)


OWN = "health"
LEMON = "lemon"
"""The fault of a node that is ill much more often than others."""
MOVES = tuple(phase.value for phase in HealthPhase)
HANDLERS: dict[tuple[str, str], Fold] = {
    (NODE, "fault-observed"): _observed,
    (NODE, "fault-cleared"): _cleared,
    **{(kind, name): _moved for kind in (NODE, DEVICE) for name in MOVES},
    (NODE, "checks-requested"): _checks_requested,
    ("job", "fault-told"): _owner_notice,
    (KIND, "brake-tripped"): _tripped,
    (KIND, "brake-reset"): _reset,
}
withdrawn = _withdrawn
