"""What is asked of a job beside its end: kept until its cluster is known, then forwarded there, the newest only."""

from collections.abc import Callable
from functools import partial

from muster.core import Draft, Fact
from muster.federation.core.state import RoutedJob, State
from muster.schemas.facts.job_wishes import (
    Ask,
    JobHoldRequested,
    JobPriorityRequested,
    JobWish,
    job_wish,
    with_wish,
    without_wishes,
)


def forwarded(record: RoutedJob) -> Draft | None:
    """The first wish for a job that was routed, as its cluster is told it; None if there is none."""
    if not record.wishes:
        return None
    job, wish = record.job, record.wishes[0]
    name = f"{wish.ask.value}-forwarded"
    return Draft("job", job.id, name, _payload(wish), (wish.fact,), job.trace, cluster=record.cluster)


def _payload(wish: JobWish) -> JobHoldRequested | JobPriorityRequested:
    if wish.priority is None:
        return JobHoldRequested(principal=wish.principal, reason=wish.reason)
    return JobPriorityRequested(principal=wish.principal, priority=wish.priority, reason=wish.reason)


def _requested(state: State, fact: Fact, *, ask: Ask) -> None:
    assert isinstance(fact.payload, JobHoldRequested | JobPriorityRequested)
    record = state.jobs.get(fact.subject_id)
    if record is None or record.phase.is_terminal:
        state.anomalies[f"{fact.name} of no live job"] += 1
        return
    record.wishes = with_wish(record.wishes, job_wish(fact.id, ask, fact.payload))
    state.dirty[record.job.id] = None


def _forwarded(state: State, fact: Fact) -> None:
    record = state.jobs.get(fact.subject_id)
    if record is None or record.phase.is_terminal:
        state.anomalies[f"{fact.name} of no live job"] += 1
        return
    told = [wish for wish in record.wishes if wish.fact in fact.causes]
    record.wishes, record.last_fact = without_wishes(record.wishes, fact.causes), fact.id
    for wish in told:  # another cluster would have to be told as well
        record.standing = with_wish(record.standing, wish)
    state.dirty[record.job.id] = None


HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    **{("job", f"{ask.value}-requested"): partial(_requested, ask=ask) for ask in Ask},
    **{("job", f"{ask.value}-forwarded"): _forwarded for ask in Ask},
}
