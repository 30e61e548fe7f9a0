"""How facts about fabrics change what the composer believes."""

from muster.composer.core.handlers import Handler
from muster.composer.core.state import State
from muster.core import NEVER, Fact, Instant
from muster.schemas.facts.fabric import (
    BreakerOpened,
    FabricSurveyed,
    OperatorSeen,
    OrphanFound,
    OrphanState,
)


def _surveyed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, FabricSurveyed)
    fabric = state.fabric(fact.subject_id)
    fabric.pool = {(model.type, model.model): model for model in fact.payload.pool}
    fabric.surveyed, fabric.last_fact, fabric.since = True, fact.id, fact.time
    for name, request in state.requests.items():
        if request.wishes:
            state.marks.look_request(name)


def _breaker_opened(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, BreakerOpened)
    fabric = state.fabric(fact.subject_id)
    fabric.opened_at, fabric.retry_at = fact.time, Instant(fact.payload.retry_at)
    fabric.error, fabric.failures, fabric.last_fact = fact.payload.error, 0, fact.id


def _breaker_closed(state: State, fact: Fact) -> None:
    fabric = state.fabric(fact.subject_id)
    fabric.opened_at = fabric.retry_at = NEVER
    fabric.error, fabric.failures, fabric.last_fact = "", 0, fact.id


def _orphan_found(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, OrphanFound)
    found = fact.payload
    state.fabric(fact.subject_id).orphans[found.device_id] = OrphanState(
        device_id=found.device_id,
        device_uuid=found.device_uuid,
        machine=found.machine,
        model=found.model,
        type=found.type,
        memory_mib=found.memory_mib,
        at=fact.time,
        fact=fact.id,
    )


def _orphan_returned(state: State, fact: Fact) -> None:
    device_id = getattr(fact.payload, "device_id", "")
    if state.fabric(fact.subject_id).orphans.pop(device_id, None) is None:
        state.anomaly("return of no orphan")


def _operator_seen(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, OperatorSeen)
    state.fabric(fact.subject_id).operator = fact.payload


HANDLERS: dict[tuple[str, str], Handler] = {
    ("fabric", "operator-seen"): _operator_seen,
    ("fabric", "surveyed"): _surveyed,
    ("fabric", "breaker-opened"): _breaker_opened,
    ("fabric", "breaker-closed"): _breaker_closed,
    ("fabric", "orphan-found"): _orphan_found,
    ("fabric", "orphan-returned"): _orphan_returned,
}
