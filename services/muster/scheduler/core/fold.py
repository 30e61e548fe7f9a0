"""How each fact changes what the scheduler believes. What fits no state is counted and changes nothing."""

from muster.core import Fact
from muster.scheduler.core import (
    federated,
    fold_jobs,
    fold_nodes,
    fold_queues,
    fold_reservations,
    fold_states,
    fold_wishes,
    preflight,
)
from muster.scheduler.core.state import Handler, State
from muster.schemas.facts.control import ClusterDescribed, ClusterSummary
from muster.schemas.facts.telemetry import JobUseReported


def fold(state: State, fact: Fact) -> None:
    """One fact further. Facts that the scheduler has no use for cost one look-up."""
    handler = HANDLERS.get((fact.kind, fact.name))
    if handler is not None:
        handler(state, fact)
        state.moves += fact.kind in _GROUNDS
    state.folded += 1
    if fact.name != "state-recorded":
        state.facts += 1
        state.checkpoint_cause = fact.id


_GROUNDS = frozenset({"queue", "node", "device", "reservation"})
"""Kinds of which every fact that is folded may change who can run."""


def _summarised(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, ClusterSummary)
    state.summary, state.summarised_at = fact.payload, fact.time
    state.contact.summarised(fact.payload, at=fact.time)
    state.summary_stale = True  # what moved since the numbers were taken is not in them


def _described(state: State, fact: Fact) -> None:
    """What the cluster can do; those that just came may be impossible now, or not any more."""
    assert isinstance(fact.payload, ClusterDescribed)
    state.described = fact.payload
    for job_id in state.arrivals:
        state.enlist(state.jobs.records[job_id])
    state.moves += 1


def _used(state: State, fact: Fact) -> None:
    """Of what the job used nothing follows here, but that somebody reads the pages of GPUs."""
    assert isinstance(fact.payload, JobUseReported)
    state.pages_read_at = max(state.pages_read_at, fact.payload.until)


def _checkpoint_requested(state: State, _fact: Fact) -> None:
    state.facts = -1  # this one itself is counted afterwards


HANDLERS: dict[tuple[str, str], Handler] = {
    **fold_jobs.HANDLERS,
    **fold_wishes.HANDLERS,
    **preflight.HANDLERS,
    **federated.HANDLERS,
    **fold_queues.HANDLERS,
    **fold_nodes.HANDLERS,
    **fold_states.HANDLERS,
    **fold_reservations.HANDLERS,
    ("cluster", "described"): _described,
    ("cluster", "summarised"): _summarised,
    ("job", "use-reported"): _used,
    ("log", "checkpoint-requested"): _checkpoint_requested,
}
