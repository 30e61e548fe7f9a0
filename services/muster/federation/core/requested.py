"""Requests of the gateway are folded once: the same one again, however it came into the log, asks for nothing.

Their ids are remembered, the newest first; the broker itself refuses a second one for two minutes only. What a job is
submitted and cancelled by needs no memory of its own: the job remembers it.
"""

from collections.abc import Iterator

from muster.core import Draft, Fact
from muster.federation.core.state import State
from muster.schemas.facts.operations import OperationWishes
from muster.schemas.registry import STATE_NAME

REQUESTS_KEPT = 10_000
"""Newest requests that are remembered: months of what people ask of queues, nodes and clusters."""

KIND, SUBJECT = "operations", "folded"
"""Of the state fact that keeps them."""

_GATEWAY = "gateway"
_OF_JOBS = frozenset({"submitted", "cancel-requested"})


def is_first(state: State, fact: Fact) -> bool:
    """Return whether the fact is to be folded, and remember a request. One that was folded before is counted."""
    if fact.writer != _GATEWAY or (fact.kind == "job" and fact.name in _OF_JOBS):
        return True
    if fact.id in state.requests:
        state.anomalies["request folded before"] += 1
        return False
    state.requests[fact.id] = None
    if len(state.requests) > REQUESTS_KEPT:
        del state.requests[next(iter(state.requests))]
    return True


def snapshot(state: State) -> Iterator[Draft]:
    """The ids, oldest first."""
    if state.requests:
        yield Draft(KIND, SUBJECT, STATE_NAME, OperationWishes(folded=tuple(state.requests)))
