"""What the federation wants of this cluster's jobs: that they are given back, and that they stop when it is silent."""

from muster.core import Draft, Fact, Instant, after
from muster.scheduler.core import booked_jobs
from muster.scheduler.core.jobs import HOLDING, WAITING, JobRecord
from muster.scheduler.core.state import Handler, State
from muster.schemas.facts.federation import ContactLost, ContactRenewed, JobRecalled, JobReturned, JobReturnRefused
from muster.schemas.facts.job import JobStopRequested, StopReason
from muster.schemas.job import Phase

ATTEMPTS_OF_ASSIGNMENT = 1_000
"""Runs are numbered from here on, for each assignment after the first: a cluster may get a job a second time, and what
a run has there is named by its number."""

OUT_OF_CONTACT = "out of contact with the federation: it may be given to another cluster"
ENDING_S_MAX = 600.0
"""So long a run that was told to end for want of contact may take; one that runs on after that was not ended by it."""
GIVEN_AWAY = "it was given to another cluster while this one was out of contact"


def first_attempt(assignment: int) -> int:
    """The number of the first run of an assignment."""
    return 1 + (assignment - 1) * ATTEMPTS_OF_ASSIGNMENT


def has_started(record: JobRecord) -> bool:
    """Whether the job had a place here, or has one."""
    return record.phase not in WAITING or record.attempt > first_attempt(record.assignment)


def answer(record: JobRecord) -> Draft | None:
    """What is said to the federation that wants the job back; None if it has to wait for the job's pods."""
    recall = record.recall
    assert recall is not None, "only a recall is answered"
    job = record.job
    causes: tuple[str, ...] = (record.recall_fact,)
    if record.recall_drops and record.phase not in WAITING:
        if record.exited is None:
            return _stop(record) if record.phase is not Phase.STOPPING else None
        causes = (record.recall_fact, record.exited_fact)
    elif not record.recall_drops and has_started(record):
        refused = JobReturnRefused(assignment=recall.assignment, reason="it has started")
        return Draft("job", job.id, "return-refused", refused, causes, job.trace)
    return Draft("job", job.id, "returned", JobReturned(assignment=recall.assignment), causes, job.trace)


def _stop(record: JobRecord) -> Draft:
    """Without any grace: it may be running elsewhere."""
    stop = JobStopRequested(attempt=record.attempt, reason=StopReason.CANCELLED, detail=GIVEN_AWAY)
    return Draft("job", record.job.id, "stop-requested", stop, (record.recall_fact,), record.job.trace)


def _recalled(state: State, fact: Fact) -> None:
    """From here on it is not placed; what was decided before that still stands. A drop stands above a recall."""
    assert isinstance(fact.payload, JobRecalled)
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.phase.is_terminal or record.assignment != fact.payload.assignment:
        state.anomalies[f"{fact.name} of no live assignment"] += 1
        return
    drops = fact.name == "drop-forwarded"
    if record.recall is not None and record.recall_drops and not drops:
        return
    record.recall, record.recall_fact, record.recall_drops = fact.payload, fact.id, drops
    state.dirty[record.id] = None
    state.enlist(record)


def _return_refused(state: State, fact: Fact) -> None:
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.recall is None or record.recall_fact not in fact.causes:
        state.anomalies["return-refused out of turn"] += 1
        return
    record.recall, record.recall_fact = None, ""
    record.last_fact = fact.id
    state.dirty[record.id] = None
    state.enlist(record)


def _returned(state: State, fact: Fact) -> None:
    """The job is none of this cluster's any more: it is forgotten, so that it may come again."""
    assert isinstance(fact.payload, JobReturned)
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.phase.is_terminal or record.assignment != fact.payload.assignment:
        state.anomalies["returned out of turn"] += 1
        return
    has_places = record.phase in HOLDING
    state.line.remove(record)
    state.jobs.move(record, Phase.CANCELLED)  # for who looks at the record once more: there is nothing left to do
    record.reserved = None
    if has_places:
        state.let_go(record, fact)
    state.runs.file(record)
    booked_jobs.follow(state.bookings, record)
    state.jobs.forget(record)
    state.arrivals.pop(record.id, None)
    state.dirty.pop(record.id, None)
    state.moves += 1
    state.summary_stale = True


def _renewed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, ContactRenewed)
    if state.contact.renewed(fact.payload, at=fact.time):
        _sort_again(state)
    if not state.contact.is_lost and state.contact_lost_at:
        _forgive(state, fact)


def _forgive(state: State, fact: Fact) -> None:
    """A run that outlived the loss of contact ends for reasons of its own from now on."""
    if fact.time < after(Instant(state.contact_lost_at), ENDING_S_MAX):
        return
    state.contact_lost_at = 0
    for record in state.jobs.records.values():
        if record.stop_detail == OUT_OF_CONTACT:
            record.stop_detail = ""


def placed_out_of_contact(state: State, record: JobRecord) -> bool:
    """Whether a placement passed the loss of contact: the agent ends such a run as soon as it hears of it."""
    return bool(record.lost_after_s) and state.contact.is_lost


def _lost(state: State, fact: Fact) -> None:
    """What runs is being ended by the agent; what waits is set aside."""
    assert isinstance(fact.payload, ContactLost)
    if not state.contact.lost(fact.payload):
        state.anomalies["contact-lost out of turn"] += 1
        return
    _sort_again(state)
    for record in state.jobs.records.values():
        if record.lost_after_s and record.phase in HOLDING and record.phase is not Phase.STOPPING:
            record.stop_detail = OUT_OF_CONTACT
    state.contact_lost_at = fact.time


def _sort_again(state: State) -> None:
    for record in state.jobs.records.values():
        if record.lost_after_s and not record.phase.is_terminal:
            record.is_cut_off = state.contact.is_lost
            state.enlist(record)
    state.moves += 1


HANDLERS: dict[tuple[str, str], Handler] = {
    ("job", "recall-forwarded"): _recalled,
    ("job", "drop-forwarded"): _recalled,
    ("job", "return-refused"): _return_refused,
    ("job", "returned"): _returned,
    ("cluster", "contact-renewed"): _renewed,
    ("cluster", "contact-lost"): _lost,
}
