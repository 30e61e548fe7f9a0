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
    books, supply, freed = state.books, state.supply + state.pool.version, state.books.freed
    handler(state, fact)
    state.moves += 1
    state.forget_counts()
    if fact.name != STATE_NAME:
        if state.supply + state.pool.version != supply:
            state.supplied_at = fact.time
        if books.freed != freed:
            state.freed_at = fact.time
    books.pending.clear()
    if books.changed:
        for name in books.changed:
            books.coming.lift(name)
            state.idle.look(books, name, at=fact.time)
            for choice in state.choices.on.get(name, ()):
                state.choices.stir(choice)
        books.changed.clear()


HANDLERS: dict[tuple[str, str], Handler] = {
    **fold_jobs.HANDLERS,
    **fold_fleet.HANDLERS,
    **fold_composer.HANDLERS,
    **fold_scale.HANDLERS,
    **fold_states.HANDLERS,
    **fold_bookings.HANDLERS,
}
