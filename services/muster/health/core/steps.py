"""One step of each unit: suspect, quarantine, repair, verification and back to health.

Each returns what must be reported now; it comes back as facts. See docs/concepts/health.md for the states.
"""

from collections.abc import Iterator

from muster.core import NEVER, Draft, Instant, after
from muster.health.core.faults import fault_draft
from muster.health.core.limits import ANSWER_S, PAGE_WAIT_S
from muster.health.core.patrol import is_deep_alone
from muster.health.core.signals import FaultSignal
from muster.health.core.state import NODE, SEVERITY, STRICTNESS, State, Unit
from muster.schemas.facts.health import OPEN_MAX, HealthMoved, HealthPhase
from muster.schemas.facts.node import WithholdRequested, WithholdWithdrawn
from muster.schemas.facts.operations import ChecksRequested, NodeAction, NodeActionRequested


def step(state: State, unit: Unit, now: Instant) -> list[Draft]:
    """Return the next facts of the unit; none while another service has drained it, or the brake is on."""
    if unit.node not in state.nodes:
        return []
    if unit.crossed:
        return [_withdrawal(unit, unit.withdrawn_id, "it is not needed any more", after_withheld=True)]
    if unit.is_healthy:
        return list(_suspect(unit)) if wants_suspicion(state, unit) else []
    if state.brake.tripped is not None:
        return []
    match unit.phase:
        case HealthPhase.SUSPECT:
            return list(_while_suspect(unit, now))
        case HealthPhase.QUARANTINED:
            return list(_while_quarantined(state, unit, now))
        case HealthPhase.REPAIRING:
            return list(_while_repairing(state, unit, now))
        case _:
            return list(_while_verifying(state, unit, now))


def wants_suspicion(state: State, unit: Unit) -> bool:
    """Return whether it is healthy and has a fault that keeps jobs off."""
    return unit.is_healthy and bool(unit.grave) and not state.is_in_maintenance(unit.node)


# --- into quarantine -----------------------------------------------------------------------------------------------


def _suspect(unit: Unit) -> Iterator[Draft]:
    incident = unit.incident + 1
    request_id = f"health.{unit.name}.{incident}.{unit.grave[0].since}"
    together = f"{unit.kind} {unit.name}"
    yield _moved(unit, "suspect", incident=incident, because=_why(unit), together=together, causes=_facts(unit))
    yield _withhold(unit, request_id, together=together, causes=_facts(unit))


def _while_suspect(unit: Unit, now: Instant) -> Iterator[Draft]:
    if not unit.grave and not unit.needs_checks:
        yield from _healthy(unit, now, "the page shows that it is over")
    elif unit.is_withheld:
        yield _moved(unit, "quarantined", because=_why(unit))
    elif STRICTNESS.index(unit.wanted_running) > STRICTNESS.index(unit.running):
        yield _withhold(unit, unit.request_id, causes=_facts(unit))


def _withhold(unit: Unit, request_id: str, *, together: str = "", causes: tuple[str, ...]) -> Draft:
    asked = WithholdRequested(request_id=request_id, reason=_why(unit), running=unit.wanted_running)
    return Draft(unit.kind, unit.name, "withhold-requested", asked, causes, together=together)


# --- repair --------------------------------------------------------------------------------------------------------


def _while_quarantined(state: State, unit: Unit, now: Instant) -> Iterator[Draft]:
    if unit.verify_fact:
        yield from _at_operator_request(state, unit, now)
    elif unit.needs_person or _must_wait(state, unit):
        return
    elif not unit.grave and not unit.needs_checks:
        yield from _healthy(unit, now, "the page shows that it is over")
    elif _is_only_waiting(unit):
        yield from _waited(state, unit, now)
    elif unit.attempt >= state.config.attempts_max:
        yield _moved(unit, "quarantined", needs_person=True, because=f"{unit.attempt} attempts did not help")
    else:
        yield from _try(state, unit, now)


def _try(state: State, unit: Unit, now: Instant) -> Iterator[Draft]:
    action = next_action(unit)
    if action is None:
        yield from _checks(state, unit, now)
    elif action is _BEYOND and unit.kind != NODE:
        yield from _its_nodes_matter(state, unit, now)
    elif action is _BEYOND:
        yield _moved(unit, "quarantined", needs_person=True, because="no repair is left that was not tried")
    elif not state.config.repair:
        yield _moved(unit, "quarantined", needs_person=True, because=f"{action.value} is wanted; repair is off")
    else:
        yield from _repair(state, unit, action, now)


def _its_nodes_matter(state: State, unit: Unit, now: Instant) -> Iterator[Draft]:
    """Suspect the node of a device that was not repaired by itself, once in a fault episode of the device."""
    rule, node = state.rules_of(unit.node).rule(UNREPAIRED), state.node_unit(unit.node)
    if state.unit_with(unit.node, unit.name, UNREPAIRED):
        return
    was_tried = node is not None and any(
        mark.code == UNREPAIRED and mark.device == unit.name and mark.at >= unit.began_at for mark in node.marks
    )
    if rule is None or was_tried:
        yield _moved(unit, "quarantined", needs_person=True, because="no repair is left that was not tried")
        return
    seen = FaultSignal(unit.node, UNREPAIRED, now, unit.name, detail=_why(unit))
    yield fault_draft(state, seen, rule, causes=_last(unit))


def _at_operator_request(state: State, unit: Unit, now: Instant) -> Iterator[Draft]:
    if unit.trust:
        yield from _healthy(unit, now, "a person says that it is well", causes=(unit.verify_fact,))
    elif not _must_wait(state, unit):
        yield from _checks(state, unit, now, attempt=1, causes=(unit.verify_fact,))


_BEYOND = NodeAction.COMMAND
"""Stands for: no repair is left."""
UNREPAIRED = "unrepaired"
"""Fault of a node with a device that a reset did not repair."""


def next_action(unit: Unit) -> NodeAction | None:
    """Return the repair for its faults, a more thorough one after each attempt; None: only checks.

    A device can only be reset.
    """
    rung = SEVERITY.index(unit.wanted_action) + unit.attempt
    most = len(SEVERITY) - 1 if unit.kind == NODE else SEVERITY.index(NodeAction.RESET)
    return _BEYOND if rung > most else SEVERITY[rung]


def _is_only_waiting(unit: Unit) -> bool:
    """Return whether only the end of the condition on the page is awaited."""
    grave = unit.grave
    return bool(grave) and unit.wanted_action is None and all(one.told.is_condition for one in grave)


def _waited(state: State, unit: Unit, now: Instant) -> Iterator[Draft]:
    """Ask for a person after a condition was shown for PAGE_WAIT_S."""
    due_at = after(unit.since, PAGE_WAIT_S)
    if now >= due_at:
        because = f"the page has shown {unit.grave[0].told.code} for {PAGE_WAIT_S / 3600:g} h"
        yield _moved(unit, "quarantined", needs_person=True, because=because)
    else:
        state.look_at(due_at, unit)


def _must_wait(state: State, unit: Unit) -> bool:
    """Return whether it must wait: a node and its devices are repaired one at a time."""
    if state.is_in_maintenance(unit.node, unit.name):
        return True
    if unit.kind != NODE:
        node = state.node_unit(unit.node)
        return node is not None and not node.is_healthy
    busy = (HealthPhase.REPAIRING, HealthPhase.VERIFYING)
    return any(device.phase in busy for device in state.devices_of(unit.name))


def _repair(state: State, unit: Unit, action: NodeAction, now: Instant) -> Iterator[Draft]:
    attempt = unit.attempt + 1
    work_id, together = _repair_id(unit, attempt), f"{unit.kind} {unit.name}"
    yield _moved(
        unit, "repairing", action=action, attempt=attempt, work_id=work_id, together=together,
        until=after(now, state.config.action_s + ANSWER_S), because=_why(unit),
    )  # fmt: skip
    device = unit.name if unit.kind != NODE else _device_of(unit)
    asked = NodeActionRequested(
        request_id=work_id, action=action, device=device if action is NodeAction.RESET else "",
        limit_s=state.config.action_s, for_what=_why(unit),
    )  # fmt: skip
    yield Draft(NODE, unit.node, "action-requested", asked, _last(unit), together=together)


def _repair_id(unit: Unit, attempt: int) -> str:
    """Return the id of a repair, unique for each incident, because the agent runs an id only once."""
    return f"health.{unit.name}.{unit.incident}.{attempt}.{unit.since}.repair"


def _device_of(unit: Unit) -> str:
    """Return the only device of a node's faults, "" for several or none: then all are reset."""
    devices = {one.told.device for one in unit.grave}
    return devices.pop() if len(devices) == 1 else ""


def _while_repairing(state: State, unit: Unit, now: Instant) -> Iterator[Draft]:
    if unit.work_done:
        yield from _checks(state, unit, now, attempt=unit.attempt)
    elif unit.work_failed or now >= unit.until:
        yield _moved(unit, "quarantined", because=unit.work_failed or "the repair was not answered in time")


# --- and back ------------------------------------------------------------------------------------------------------


def _checks(
    state: State, unit: Unit, now: Instant, *, attempt: int = 0, causes: tuple[str, ...] = ()
) -> Iterator[Draft]:
    config = state.config
    is_node = unit.kind == NODE
    checks, limit_s = (config.verify, config.verify_s) if is_node else (config.verify_device, config.verify_device_s)
    if is_deep_alone(unit):
        checks, limit_s = config.patrol.deep, config.patrol.deep_s
    if not checks:
        because = "no checks are set that could show it to be well"
        yield _moved(unit, "quarantined", needs_person=True, because=because, causes=causes)
        return
    attempt = attempt or unit.attempt + 1
    work_id, together = f"health.{unit.name}.{unit.incident}.{attempt}.{now}.verify", f"{unit.kind} {unit.name}"
    yield _moved(
        unit, "verifying", attempt=attempt, work_id=work_id, together=together, causes=causes,
        until=after(now, limit_s + config.soak_s + ANSWER_S), because=_why(unit),
    )  # fmt: skip
    asked = ChecksRequested(request_id=work_id, checks=checks, limit_s=limit_s, invasive=is_node, reason="verify")
    yield Draft(NODE, unit.node, "checks-requested", asked, causes or _last(unit), together=together)


def _while_verifying(state: State, unit: Unit, now: Instant) -> Iterator[Draft]:
    """Return to health only on evidence: all checks passed, conditions are over, and no new fault came."""
    fresh = [one for one in unit.grave if not one.told.is_condition and one.seen_at > unit.since]
    if fresh:
        yield _moved(unit, "quarantined", because=f"{fresh[0].told.code} came while it was checked")
    elif unit.work_failed:
        yield _moved(unit, "quarantined", because=unit.work_failed)
    elif now >= unit.until:
        lasting = ", ".join(one.told.code for one in unit.grave if one.told.is_condition)
        because = f"the page still shows {lasting}" if unit.work_done else "the checks were not answered in time"
        yield _moved(unit, "quarantined", because=because)
    elif unit.work_done and not any(one.told.is_condition for one in unit.grave):
        steady_at = after(unit.since, state.config.soak_s)
        if now >= steady_at:
            yield from _healthy(unit, now, "all checks passed")
        else:
            state.look_at(steady_at, unit)


def _healthy(unit: Unit, now: Instant, because: str, *, causes: tuple[str, ...] = ()) -> Iterator[Draft]:
    together = f"{unit.kind} {unit.name}"
    lasted_s = max(0.0, (now - unit.began_at) / 1e9)
    yield _moved(unit, "healthy", because=because, lasted_s=lasted_s, together=together, causes=causes)
    if unit.request_id:
        yield _withdrawal(unit, unit.request_id, because, after_withheld=unit.is_withheld, together=together)


def _withdrawal(unit: Unit, request_id: str, because: str, *, after_withheld: bool, together: str = "") -> Draft:
    withdrawn = WithholdWithdrawn(request_id=request_id, reason=because, after_withheld=after_withheld)
    return Draft(unit.kind, unit.name, "withhold-withdrawn", withdrawn, _last(unit), together=together)


# --- words ---------------------------------------------------------------------------------------------------------


def _moved(
    unit: Unit, name: str, *, because: str, incident: int = 0, attempt: int | None = None,
    action: NodeAction | None = None, work_id: str = "", until: Instant = NEVER, needs_person: bool = False,
    lasted_s: float = 0.0, together: str = "", causes: tuple[str, ...] = (),
) -> Draft:  # fmt: skip
    codes = tuple(dict.fromkeys(one.told.code for one in unit.grave))[:OPEN_MAX]
    payload = HealthMoved(
        node=unit.node, because=because, codes=codes, incident=incident or unit.incident,
        attempt=unit.attempt if attempt is None else attempt, action=action, work_id=work_id, until=until,
        needs_person=needs_person, lasted_s=lasted_s,
    )  # fmt: skip
    return Draft(unit.kind, unit.name, name, payload, causes or _last(unit), together=together)


def _why(unit: Unit) -> str:
    parts = []
    for one in unit.grave[:4]:
        told = one.told
        of = f" on {told.device}" if told.device and unit.kind == NODE else ""
        parts.append(
            f"{told.code}{of}: {told.because or told.detail}" if told.because or told.detail else told.code + of
        )
    return "; ".join(parts)[:500] or unit.because[:500]


def _facts(unit: Unit) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.fact for one in unit.grave if one.fact))[:16]


def _last(unit: Unit) -> tuple[str, ...]:
    return (unit.moved_fact,) if unit.moved_fact else ()
