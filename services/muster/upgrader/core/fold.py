"""How each fact changes what the upgrader believes. What fits no state is counted and changes nothing."""

from collections.abc import Callable

from muster.core import Fact
from muster.schemas.registry import STATE_NAME
from muster.upgrader.core import fold_campaigns, fold_jobs, fold_nodes
from muster.upgrader.core.fold_states import restore
from muster.upgrader.core.state import State

_STATES = ("campaign", "node", "job", "health")

HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    **fold_jobs.HANDLERS,
    **fold_nodes.HANDLERS,
    **fold_campaigns.HANDLERS,
    **{(kind, STATE_NAME): restore for kind in _STATES},
}


def fold(state: State, fact: Fact) -> None:
    """One fact further. Facts that the upgrader has no use for cost one look-up."""
    handler = HANDLERS.get((fact.kind, fact.name))
    if handler is not None:
        handler(state, fact)
