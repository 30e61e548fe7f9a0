"""How each fact changes what the scaler believes. What fits no state is counted and changes nothing."""

from collections.abc import Callable

from muster.core import Fact
from muster.scaler.core import fold_composer, fold_fleet, fold_jobs, fold_scale, fold_states
from muster.scaler.core.state import State

Handler = Callable[[State, Fact], None]
"""How one sort of fact changes the state."""


def fold(state: State, fact: Fact) -> None:
    """One fact further. Facts that the scaler has no use for cost one look-up."""
    handler = HANDLERS.get((fact.kind, fact.name))
    if handler is None:
        return
    handler(state, fact)
    state.moves += 1
    state.forget_counts()
    books = state.books
    books.pending.clear()
    if books.changed:
        for name in books.changed:
            books.coming.lift(name)
            state.idle.look(books, name, at=fact.time)
        books.changed.clear()


HANDLERS: dict[tuple[str, str], Handler] = {
    **fold_jobs.HANDLERS,
    **fold_fleet.HANDLERS,
    **fold_composer.HANDLERS,
    **fold_scale.HANDLERS,
    **fold_states.HANDLERS,
}
