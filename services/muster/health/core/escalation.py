"""What several observations amount to: escalations of the rules over a node's marks, and lemons by its history."""

from collections.abc import Iterator

from muster.core import Draft, Instant, after
from muster.health.core.faults import fault_draft, is_burst
from muster.health.core.fold_health import LEMON
from muster.health.core.patrol import light_checks
from muster.health.core.rules import Escalation
from muster.health.core.signals import FaultSignal
from muster.health.core.state import State, Unit
from muster.schemas.facts.health import FaultClass, FaultMark, FaultScope

FRESH_S = 3600.0
"""A node is judged by its history when it falls ill, and so long afterwards at the most."""


def escalate(state: State, now: Instant, room: int) -> list[Draft]:
    """Faults that nodes have by what was observed of them lately. A node is judged once after each observation."""
    drafts: list[Draft] = []
    for node in tuple(state.judged):
        if len(drafts) >= room:
            break
        unit = state.node_unit(node)
        found = [] if unit is None or node not in state.nodes else [*_of_marks(state, unit, now)]
        if unit is not None and node in state.nodes:
            found += _of_history(state, unit, now)
        if found:
            drafts += found
        else:
            state.judged.pop(node)  # remembers only to save work
    return drafts


def _of_marks(state: State, unit: Unit, now: Instant) -> Iterator[Draft]:
    table = state.rules_of(unit.node)
    for escalation in table.escalations:
        rule = table.rule(escalation.code)
        if rule is None:
            continue
        since = after(now, -escalation.within_s)
        by_device: dict[str, list[FaultMark]] = {}
        answered = set[str]()  # nothing new was observed since it was told: its own fact is no reason to emit it again
        for mark in unit.marks:
            device = mark.device if escalation.per is FaultScope.DEVICE else ""
            if mark.code == escalation.code:
                answered.add(device)
            elif mark.at > since and escalation.counts(mark.code, mark.fault_class):
                answered.discard(device)
                by_device.setdefault(device, []).append(mark)
        for device, marks in by_device.items():
            seen = FaultSignal(unit.node, escalation.code, now, device, detail=_describe(escalation, marks))
            is_told = state.unit_with(unit.node, device, escalation.code) or is_burst(
                state, seen, rule, across_repairs=True
            )
            if not is_told and device not in answered and _amounts(escalation, marks):
                teams = tuple(dict.fromkeys(team for mark in marks for team in mark.teams))
                yield fault_draft(state, seen, rule, teams=teams)
                if rule.fault_class is FaultClass.NOTE and not rule.store_only:
                    yield from light_checks(state, unit.node, now, reason=escalation.code)


def _amounts(escalation: Escalation, marks: list[FaultMark]) -> bool:
    teams = {team for mark in marks for team in mark.teams}
    devices = {mark.device for mark in marks}
    return len(marks) >= escalation.times and len(teams) >= escalation.teams and len(devices) >= escalation.devices


def _describe(escalation: Escalation, marks: list[FaultMark]) -> str:
    codes = ", ".join(dict.fromkeys(mark.code for mark in marks))[:200]
    teams = len({team for mark in marks for team in mark.teams})
    of_teams = f" of {teams} teams" if escalation.teams else ""
    return f"{len(marks)} times {codes}{of_teams} within {escalation.within_s / 3600:g} h"


def _of_history(state: State, unit: Unit, now: Instant) -> Iterator[Draft]:
    """A lemon: ill often, and much more often than others."""
    config = state.config.lemon
    rule = state.rules_of(unit.node).rule(LEMON)
    since = after(now, -config.window_s)
    own = sum(at > since for at in unit.incidents)
    if rule is None or own < config.incidents or (LEMON, "") in unit.faults:
        return
    newest = unit.incidents[-1]
    if newest <= after(now, -FRESH_S) or any(mark.code == LEMON and mark.at >= newest for mark in unit.marks):
        return  # it was judged when it fell ill, whatever is seen of it since
    others = (state.incidents - len(unit.incidents)) / max(1, len(state.nodes) - 1)
    seen = FaultSignal(
        unit.node,
        LEMON,
        now,
        detail=f"{own} times ill or lost within {config.window_s / 86_400:g} d; others {others:.2f}",
    )
    if own >= config.ratio * others and not is_burst(state, seen, rule, across_repairs=True):
        yield fault_draft(state, seen, rule)
