"""How each fact changes what the composer believes. What fits no state is counted and changes nothing."""

from muster.composer.core import fold_attachments, fold_fabrics, fold_nodes, fold_requests, fold_states
from muster.composer.core.handlers import Handler
from muster.composer.core.state import State
from muster.core import Fact


def fold(state: State, fact: Fact) -> None:
    """One fact further. Facts that the composer has no use for cost one look-up."""
    handler = HANDLERS.get((fact.kind, fact.name))
    if handler is not None:
        handler(state, fact)


HANDLERS: dict[tuple[str, str], Handler] = {
    **fold_attachments.HANDLERS,
    **fold_fabrics.HANDLERS,
    **fold_nodes.HANDLERS,
    **fold_requests.HANDLERS,
    **fold_states.HANDLERS,
}
