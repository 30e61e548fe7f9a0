"""States of nodes and devices, a part of the health core: fold observations, decide the next steps.

Several observations may mean more: escalations of the rules over a node's marks, and lemons by its history.
"""

from collections.abc import Iterator

from muster.core import Draft, Fact, Instant, after
from muster.core.folding import Folds
from muster.health.core import fold_cluster, fold_health
from muster.health.core.brake import KIND, SUBJECT
from muster.health.core.config import HealthConfig
from muster.health.core.detector import FaultDetector
from muster.health.core.faults import emit, fault_draft, is_burst
from muster.health.core.fold_health import LEMON
from muster.health.core.patrol import Rounds, is_deep_alone, light_checks
from muster.health.core.rules import Escalation
from muster.health.core.signals import FaultSignal, FaultSignals
from muster.health.core.state import NODE, State, Unit, UnitKey, orphan_withdrawals
from muster.health.core.steps import step, wants_suspicion
from muster.schemas.facts.health import FaultClass, FaultMark, FaultScope

FRESH_S = 3600.0
"""How long after a fault episode began a node is judged by its history."""


def escalate(state: State, now: Instant, room: int) -> list[Draft]:
    """Return faults that follow from recent observations. A node is judged once after each observation."""
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
    """Find a lemon: a node that fails often, and much more often than others."""
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


FOLDS = Folds[State, None](fold_health.FOLDS, fold_cluster.FOLDS)


class NodeVerdicts:
    """Verdicts on nodes and devices.

    `state` is read-only for others. `detector` reads exporters' pages; its findings wait in `signals`.
    """

    def __init__(self, config: HealthConfig) -> None:
        self.signals = FaultSignals()
        self.state = State(config, self.signals)
        self.detector = FaultDetector(
            self.signals,
            config.rules.of,
            standing=self.state.standing,
            known=self.state.was_reported,
            steady_s=config.steady_s,
            node_of=self.state.nodes.node_of,
        )
        self._rounds = Rounds()
        self._now = Instant(0)
        self._has_more = False

    def apply(self, fact: Fact) -> None:
        """Fold one fact."""
        FOLDS.apply(self.state, fact)
        if fact.kind == NODE and fact.name == "left":
            self.detector.forget(fact.subject_id)

    def decide(self, now: Instant, room: int) -> list[Draft]:
        """Return drafts: first what faulty hardware still does to jobs, then new faults, then periodic checks."""
        state = self.state
        self._now, self.signals.is_fresh = now, False
        state.advance(now)
        drafts = [] if (reset := state.brake.reset()) is None else [reset]
        drafts += orphan_withdrawals(state, room - len(drafts))
        drafts += self._steps(now, room - len(drafts))
        drafts += emit(state, room - len(drafts))
        drafts += escalate(state, now, room - len(drafts))
        drafts += self._patrol(now, room - len(drafts))
        self._has_more = len(drafts) >= room or (not drafts and self.signals.has_ready)
        return drafts

    def next_wakeup(self) -> Instant | None:
        """Return when to decide again."""
        if self._has_more or self.signals.is_fresh:
            return self._now
        moments = (self.state.next_due(), self._rounds.next_at())
        return min((moment for moment in moments if moment is not None), default=None)

    def snapshot(self) -> Iterator[Draft]:
        """Yield the state facts of a checkpoint."""
        return fold_cluster.state_drafts(self.state)

    def _patrol(self, now: Instant, room: int) -> list[Draft]:
        state = self.state
        fresh, state.fresh = state.fresh, []
        for node, at in fresh:
            self._rounds.join(state, node, at)
        return self._rounds.go(state, now, room)

    def _steps(self, now: Instant, room: int) -> list[Draft]:
        drafts: list[Draft] = []
        done: list[UnitKey] = []
        suspected = set[str]()
        for key in tuple(self.state.dirty):
            if len(drafts) >= room:
                break
            unit = self.state.units.get(key)
            found = [] if unit is None else self._of(unit, now, suspected)
            if found and found[0].subject_id == SUBJECT and found[0].kind == KIND:
                return [found[0]]  # the brake trips: no other verdict is reported with it
            drafts += found
            if not found:
                done.append(key)
        for key in done:  # remembers only to save work: whatever changes a unit marks it again
            self.state.dirty.pop(key, None)
        return drafts

    def _of(self, unit: Unit, now: Instant, suspected: set[str]) -> list[Draft]:
        state = self.state
        if unit.reported and unit.kind == NODE:
            return self._of_checks(unit)
        if wants_suspicion(state, unit) and not is_deep_alone(unit):
            brake = state.brake
            if brake.tripped is not None:
                return []
            if not brake.is_counted(unit.node, now):
                suspected.add(unit.node)
            if brake.counted(now) + len(suspected) > brake.most(len(state.nodes)):
                return [brake.trip(more=len(suspected), fleet=len(state.nodes), now=now)]
        return step(state, unit, now)

    def _of_checks(self, unit: Unit) -> list[Draft]:
        """Return faults of failed checks that were not verifications."""
        drafts = []
        table = self.state.rules_of(unit.name)
        for one in unit.reported.values():
            rule = table.rule(one.code)
            if rule is not None:
                seen = FaultSignal(unit.name, one.code, Instant(one.at), one.device, detail=one.detail)
                drafts.append(fault_draft(self.state, seen, rule, causes=(one.fact,) if one.fact else ()))
        return drafts
