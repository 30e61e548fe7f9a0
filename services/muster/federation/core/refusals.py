"""Refusals of jobs that stand for objects of a cluster: the gateway says them, that cluster is told."""

from collections.abc import Callable, Iterator

from muster.core import Draft, Fact
from muster.federation.core.state import State
from muster.schemas.facts.workload import JobRefused, RefusalState
from muster.schemas.record import FactBody
from muster.schemas.registry import STATE_NAME


def forwarded(state: State, *, most: int) -> Iterator[Draft]:
    """The next `most` refusals, each for the cluster whose object it is about."""
    for refusal in tuple(state.refusals.values())[:most]:
        told = refusal.refused
        yield Draft(
            "job", refusal.job_id, "refusal-forwarded", told, (refusal.fact,), refusal.trace, cluster=told.cluster
        )


def snapshot(state: State) -> Iterator[Draft]:
    """Refusals that were not forwarded yet, by the object that they are about."""
    for refusal in state.refusals.values():
        yield Draft("workload", refusal.refused.workload, STATE_NAME, refusal, trace=refusal.trace)


def restore(state: State, payload: FactBody) -> None:
    """What a checkpoint says of refusals."""
    if isinstance(payload, RefusalState) and state.is_member(payload.refused.cluster, what="refused"):
        state.refusals[payload.job_id] = payload


def _refused(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobRefused)
    if not state.is_member(fact.payload.cluster, what="refused"):
        return
    state.refusals[fact.subject_id] = RefusalState(
        job_id=fact.subject_id, refused=fact.payload, fact=fact.id, trace=fact.trace
    )


def _forwarded(state: State, fact: Fact) -> None:
    if state.refusals.pop(fact.subject_id, None) is None:
        state.anomalies["refusal-forwarded out of turn"] += 1


HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    ("job", "refused"): _refused,
    ("job", "refusal-forwarded"): _forwarded,
}
