"""States of nodes and devices, a part of the health core: folds what was observed, decides what follows."""

from collections.abc import Iterator, Mapping
from functools import partial

from muster.core import Draft, Fact, Instant
from muster.health.core import fold_cluster, fold_health
from muster.health.core.brake import KIND, SUBJECT
from muster.health.core.config import HealthConfig
from muster.health.core.detector import FaultDetector
from muster.health.core.escalation import escalate
from muster.health.core.faults import emit, fault_draft
from muster.health.core.part import Handler
from muster.health.core.patrol import Rounds, is_deep_alone
from muster.health.core.signals import FaultSignal, FaultSignals
from muster.health.core.state import NODE, State, Unit, UnitKey, orphan_withdrawals
from muster.health.core.steps import step, wants_suspicion


class NodeVerdicts:
    """Implements `Part`.

    state: as folded, for reading. detector: reads exporters' pages; what it finds waits in `signals` to be emitted.
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

    @property
    def handlers(self) -> Mapping[tuple[str, str], Handler]:
        """See `Part.handlers`."""
        folds = {
            **fold_health.HANDLERS,
            **fold_cluster.HANDLERS,
            **fold_cluster.STATE_HANDLERS,
        }
        return {name: partial(fold, self.state) for name, fold in folds.items()} | {(NODE, "left"): self._left}

    def decide(self, now: Instant, room: int) -> list[Draft]:
        """See `Part.decide`. First what sick hardware still does to jobs, then what is new, then what repeats."""
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
        """See `Part.next_wakeup`."""
        if self._has_more or self.signals.is_fresh:
            return self._now
        moments = (self.state.next_due(), self._rounds.next_at())
        return min((moment for moment in moments if moment is not None), default=None)

    def snapshot(self) -> Iterator[Draft]:
        """See `Part.snapshot`."""
        return fold_cluster.state_drafts(self.state)

    def _left(self, fact: Fact) -> None:
        fold_cluster.left(self.state, fact)
        self.detector.forget(fact.subject_id)

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
                return [found[0]]  # the brake trips: nothing else is said with it
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
        """Failed checks that nobody had asked for to give something back."""
        drafts = []
        table = self.state.rules_of(unit.name)
        for one in unit.reported.values():
            rule = table.rule(one.code)
            if rule is not None:
                seen = FaultSignal(unit.name, one.code, Instant(one.at), one.device, detail=one.detail)
                drafts.append(fault_draft(self.state, seen, rule, causes=(one.fact,) if one.fact else ()))
        return drafts
