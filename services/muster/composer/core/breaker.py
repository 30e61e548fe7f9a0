"""A fabric that fails too often in a row is left alone for a while, then tried with one call."""

from muster.composer.core.limits import BREAKER_S_MAX, ERROR_CHARS_MAX
from muster.composer.core.looks import Looks
from muster.composer.core.records import Fabric
from muster.composer.core.state import State
from muster.composer.core.turn import Turn, causes_of
from muster.core import Draft, Instant, after, seconds_between
from muster.schemas.devices import BreakerState
from muster.schemas.facts.device import CallFailure
from muster.schemas.facts.fabric import BreakerClosed, BreakerOpened


def is_open(fabric: Fabric, now: Instant) -> bool:
    """Whether no call may be made."""
    return bool(fabric.retry_at) and now < fabric.retry_at


def is_probing(fabric: Fabric, now: Instant) -> bool:
    """Whether one call may be made, to see."""
    return bool(fabric.retry_at) and now >= fabric.retry_at


def breaker_of(fabric: Fabric, now: Instant) -> BreakerState:
    """As views show it."""
    if not fabric.retry_at:
        return BreakerState.CLOSED
    return BreakerState.OPEN if is_open(fabric, now) else BreakerState.HALF_OPEN


def breakers(state: State, looks: Looks, turn: Turn) -> None:
    """Open and close what has to be."""
    for config in state.config.fabrics:
        fabric, look = state.fabrics[config.name], looks.at(config.name)
        if not fabric.retry_at:
            failures = fabric.failures + look.failures
            if failures >= state.bounds.breaker_failures:
                _open(state, fabric, looks, failures, turn)
        elif is_probing(fabric, turn.now):
            if fabric.succeeded_at > fabric.opened_at or (
                not _has_work(state, config.name) and look.began_at >= fabric.retry_at
            ):
                causes = causes_of(fabric.last_fact)
                turn.drafts.append(Draft("fabric", fabric.name, "breaker-closed", BreakerClosed(), causes))
                look.failures = 0
            elif fabric.failures or look.failed_at >= fabric.retry_at:
                _open(state, fabric, looks, max(1, fabric.failures), turn)


def _has_work(state: State, fabric: str) -> bool:
    marks = state.marks
    return bool(state.calling[fabric] or marks.attach.get(fabric) or marks.detach.get(fabric))


def _open(state: State, fabric: Fabric, looks: Looks, failures: int, turn: Turn) -> None:
    look, open_s = looks.at(fabric.name), state.bounds.breaker_s
    if fabric.retry_at:  # it was tried, in vain: a fabric that is gone is not told of every half minute
        open_s = max(open_s, min(BREAKER_S_MAX, 2 * seconds_between(fabric.opened_at, fabric.retry_at)))
    payload = BreakerOpened(
        failures=failures,
        failure=look.failure or fabric.failure or CallFailure.UNAVAILABLE,
        error=(look.error or fabric.error)[:ERROR_CHARS_MAX],
        retry_at=after(turn.now, open_s),
    )
    turn.opened.add(fabric.name)
    turn.drafts.append(Draft("fabric", fabric.name, "breaker-opened", payload, causes_of(fabric.last_fact)))
