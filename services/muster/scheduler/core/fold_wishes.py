"""How it changes what the scheduler believes that jobs are held, released and get another priority."""

from functools import partial

from muster.core import Fact
from muster.scheduler.core.fold_jobs import touch
from muster.scheduler.core.jobs import WAITING, JobRecord
from muster.scheduler.core.order import moved
from muster.scheduler.core.reasons import Reason
from muster.scheduler.core.state import Handler, State
from muster.schemas.facts.job_wishes import (
    Ask,
    JobHeld,
    JobHoldRequested,
    JobPriorityRequested,
    JobReprioritised,
    job_wish,
    with_wish,
    without_wishes,
)


def _forwarded(state: State, fact: Fact, *, ask: Ask) -> None:
    """From here on a job that is to be held is not placed; what was decided before that still stands."""
    assert isinstance(fact.payload, JobHoldRequested | JobPriorityRequested)
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.phase.is_terminal:
        state.anomalies[f"{fact.name} of no live job"] += 1
        return
    record.wishes = with_wish(record.wishes, job_wish(fact.id, ask, fact.payload))
    state.dirty[record.id] = None
    state.enlist(record)


def _held(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobHeld)
    record = _answered(state, fact)
    if record is None:
        return
    if record.phase not in WAITING:
        state.anomalies["held out of turn"] += 1
        return
    record.held, record.reserved = fact.payload, None
    record.reason, record.detail = Reason.HELD.value, fact.payload.words
    state.enlist(record)
    touch(state, record, fact)


def _unheld(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobHeld)
    record = _answered(state, fact)
    if record is None:
        return
    if record.held is None:
        state.anomalies["unheld out of turn"] += 1
        return
    record.held = None
    record.reason, record.detail = Reason.RELEASED.value, fact.payload.words
    state.enlist(record)
    touch(state, record, fact)


def _reprioritised(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobReprioritised)
    record = _answered(state, fact)
    if record is None:
        return
    was, record.priority = record.effective_priority, fact.payload.priority
    policy = state.queues.policy_for(record.queue, record.job.spec.queue_name)
    state.line.remove(record)  # it is found there by its rank
    record.rank = moved(record.rank, policy, was=was, priority=record.effective_priority)
    state.enlist(record)
    state.runs.reprioritise(record, was=was)
    touch(state, record, fact)


def _refused(state: State, fact: Fact) -> None:
    record = _answered(state, fact)
    if record is not None:
        state.enlist(record)
        touch(state, record, fact)


def _answered(state: State, fact: Fact) -> JobRecord | None:
    """The live job that this fact is about, without the wish that it answers; a newer one stays."""
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.phase.is_terminal:
        state.anomalies[f"{fact.name} of no live job"] += 1
        return None
    record.wishes = without_wishes(record.wishes, fact.causes)
    return record


HANDLERS: dict[tuple[str, str], Handler] = {
    **{("job", f"{ask.value}-forwarded"): partial(_forwarded, ask=ask) for ask in Ask},
    **{("job", f"{ask.value}-refused"): _refused for ask in Ask},
    ("job", "held"): _held,
    ("job", "unheld"): _unheld,
    ("job", "reprioritised"): _reprioritised,
}
