"""How each fact changes what the scaler believes. What fits no state is counted and changes nothing."""

from collections.abc import Callable

from muster.core import Fact
from muster.scaler.core import fold_bookings, fold_composer, fold_fleet, fold_jobs, fold_scale, fold_states
from muster.scaler.core.state import State
from muster.schemas.registry import STATE_NAME

Handler = Callable[[State, Fact], None]
"""How one sort of fact changes the state."""


def fold(state: State, fact: Fact) -> None:
    """One fact further. Facts that the scaler has no use for cost one look-up."""
    handler = HANDLERS.get((fact.kind, fact.name))
    if handler is None:
        return
    supply, freed = state.supply + state.pool.version, state.freed
    handler(state, fact)
    state.moves += 1
    state.forget_counts()
    if fact.name != STATE_NAME:
        if state.supply + state.pool.version != supply:
            state.supplied_at = fact.time
        if state.freed != freed:
            state.freed_at = fact.time
    state.grants.pending.clear()
    if state.changed.names:
        for name in state.changed.names:
            state.coming.lift(name)
            state.idle.look(name, at=fact.time)
            for choice in state.choices.on.get(name, ()):
                state.choices.stir(choice)
        state.changed.names.clear()


HANDLERS: dict[tuple[str, str], Handler] = {
    **fold_jobs.HANDLERS,
    **fold_fleet.HANDLERS,
    **fold_composer.HANDLERS,
    **fold_scale.HANDLERS,
    **fold_states.HANDLERS,
    **fold_bookings.HANDLERS,
}
