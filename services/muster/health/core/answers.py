"""Answer questions from the state; answers append nothing."""

from itertools import islice

from muster.core import Core, Instant
from muster.health.core.core import HealthCore
from muster.health.core.state import State, Unit
from muster.schemas.base import Wire
from muster.schemas.conditions import (
    CONDITIONS_MAX,
    EPISODES_MAX,
    AskConditions,
    BrakeView,
    Condition,
    ConditionsAnswer,
    EndedIllness,
    FaultCount,
)


def answer_conditions(core: Core, asked: Wire, now: Instant) -> ConditionsAnswer:
    """Answer `conditions`: everything that is not healthy, or one node with its observations."""
    assert isinstance(core, HealthCore)
    assert isinstance(asked, AskConditions)
    state = core.verdicts.state
    answer = ConditionsAnswer(
        nodes=len(state.nodes),
        dry_run=state.config.dry_run,
        brake=brake_view(state, now),
        counts=_counts(state),
        at=now,
    )
    if not asked.node:
        ill = (state.units[key] for key in state.ill)
        shown = sorted(ill, key=lambda unit: (not unit.needs_person, -unit.since, unit.name))[:CONDITIONS_MAX]
        return answer.model_copy(update={"conditions": tuple(map(condition_of, shown)), "ended": _ended(state)})
    own = state.node_unit(asked.node)
    units = [*([own] if own is not None else ()), *state.devices_of(asked.node)]
    return answer.model_copy(
        update={
            "conditions": tuple(condition_of(unit) for unit in units if not unit.is_healthy or unit.faults),
            "ended": _ended(state, asked.node),
            "marks": tuple(reversed(own.marks)) if own is not None else (),
            "opted_out": state.observes_only(asked.node),
            "known": asked.node in state.nodes,
        }
    )


def brake_view(state: State, now: Instant) -> BrakeView:
    """Return the current brake."""
    brake = state.brake
    return BrakeView(
        nodes=brake.counted(now),
        most=brake.most(len(state.nodes)),
        window_s=brake.config.window_s,
        tripped=brake.tripped,
        tripped_at=brake.tripped_at,
    )


def condition_of(unit: Unit) -> Condition:
    """Return the view of one unit."""
    return Condition(
        kind=unit.kind,
        name=unit.name,
        node=unit.node,
        phase=unit.phase,
        since=unit.since,
        began_at=unit.began_at,
        because=unit.because,
        faults=tuple(unit.faults.values()),
        attempt=unit.attempt,
        action=unit.action.value if unit.action is not None else "",
        needs_person=unit.needs_person,
        withheld=unit.is_withheld,
        maintained_by=tuple(sorted(set(unit.maintained_by.values()))),
    )


def _ended(state: State, node: str = "") -> tuple[EndedIllness, ...]:
    found = (one for one in reversed(state.history) if not node or one.node == node)
    return tuple(islice(found, EPISODES_MAX))


def _counts(state: State) -> tuple[FaultCount, ...]:
    return tuple(
        FaultCount(code=code, fault_class=fault_class, count=count)
        for (code, fault_class), count in sorted(state.counted.items())
    )
