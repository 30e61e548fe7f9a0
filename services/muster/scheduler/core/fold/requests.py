"""Folds of requests about jobs (hold, release, priority, requeue, edit, recall) and of contact with the federation."""

from muster.core import Fact, Instant, after
from muster.core.folding import Folds
from muster.scheduler.core.fold.updates import enlist, let_go, settle_job, touch
from muster.scheduler.core.lifecycle.follow_ups import (
    OUT_OF_CONTACT,
)
from muster.scheduler.core.order import moved
from muster.scheduler.core.reasons import Reason
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.bookings import book_reserved
from muster.scheduler.core.stores.jobs import HOLDING, WAITING, JobRecord
from muster.schemas.facts.federation import ContactLost, ContactRenewed, JobRecalled, JobReturned, JobReturnRefused
from muster.schemas.facts.job_requests import (
    Ask,
    JobEdited,
    JobEditRequested,
    JobHeld,
    JobHoldRequested,
    JobPriorityRequested,
    JobReprioritised,
    JobRequestRefused,
    PendingEdit,
    pending_job_request,
    pending_requeue,
    with_edit,
    with_pending,
    without_answered,
)
from muster.schemas.job import Phase

FOLDS = Folds[State, None]()


@FOLDS.on(
    "job", ("hold-forwarded", "release-forwarded", "priority-forwarded"), (JobHoldRequested, JobPriorityRequested)
)
def _forwarded(state: State, fact: Fact, asked: JobHoldRequested | JobPriorityRequested) -> None:
    """Add the request. From now on a job to be held is not placed; earlier decisions stay valid."""
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.phase.is_terminal:
        state.anomalies[f"{fact.name} of no live job"] += 1
        return
    ask = Ask(fact.name.removesuffix("-forwarded"))
    record.wishes = with_pending(record.wishes, pending_job_request(fact.id, ask, asked))
    state.due.mark_dirty(record.id)
    enlist(state, record)


@FOLDS.on("job", "requeue-forwarded", JobHoldRequested)
def _requeue_forwarded(state: State, fact: Fact, asked: JobHoldRequested) -> None:
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.phase.is_terminal:
        state.anomalies[f"{fact.name} of no live job"] += 1
        return
    record.requeue = pending_requeue(fact.id, asked)
    state.due.mark_dirty(record.id)


@FOLDS.on("job", "edit-forwarded", JobEditRequested)
def _edit_forwarded(state: State, fact: Fact, asked: JobEditRequested) -> None:
    """Add the request. The job is not placed before the answer, which a job with a place would not get."""
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.phase.is_terminal:
        state.anomalies[f"{fact.name} of no live job"] += 1
        return
    record.edit = with_edit(record.edit, PendingEdit(fact=fact.id, asked=asked))
    state.due.mark_dirty(record.id)
    enlist(state, record)


@FOLDS.on("job", "edited", JobEdited)
def _edited(state: State, fact: Fact, edited: JobEdited) -> None:
    record = _answered(state, fact)
    if record is None:
        return
    if record.phase is not Phase.QUEUED:
        state.anomalies["edited out of turn"] += 1
        return
    total_s, slice_s = edited.total_run_time_s, edited.min_slice_s
    settle_job(state, record, queue=record.queue, total_run_time_s=total_s, min_slice_s=slice_s)
    enlist(state, record)
    touch(state, record, fact)


@FOLDS.on("job", "held", JobHeld)
def _held(state: State, fact: Fact, held: JobHeld) -> None:
    record = _answered(state, fact)
    if record is None:
        return
    if record.phase not in WAITING:
        state.anomalies["held out of turn"] += 1
        return
    record.held, record.reserved = held, None
    record.reason, record.detail = Reason.HELD.value, held.words
    enlist(state, record)
    touch(state, record, fact)


@FOLDS.on("job", "unheld", JobHeld)
def _unheld(state: State, fact: Fact, unheld: JobHeld) -> None:
    record = _answered(state, fact)
    if record is None:
        return
    if record.held is None:
        state.anomalies["unheld out of turn"] += 1
        return
    record.held = None
    record.reason, record.detail = Reason.RELEASED.value, unheld.words
    enlist(state, record)
    touch(state, record, fact)


@FOLDS.on("job", "reprioritised", JobReprioritised)
def _reprioritised(state: State, fact: Fact, reprioritised: JobReprioritised) -> None:
    record = _answered(state, fact)
    if record is None:
        return
    was, record.priority = record.effective_priority, reprioritised.priority
    policy = state.queues.policy_for(record.queue, record.job.spec.queue_name)
    state.pending.remove(record)  # the entry is found by its rank
    record.rank = moved(record.rank, policy, was=was, priority=record.effective_priority)
    enlist(state, record)
    state.runs.reprioritise(record, was=was)
    touch(state, record, fact)


@FOLDS.on(
    "job", ("hold-refused", "release-refused", "priority-refused", "requeue-refused", "edit-refused"), JobRequestRefused
)
def _refused(state: State, fact: Fact, _: JobRequestRefused) -> None:
    record = _answered(state, fact)
    if record is not None:
        enlist(state, record)
        touch(state, record, fact)


def _answered(state: State, fact: Fact) -> JobRecord | None:
    """Remove the request that this fact answers from its live job, and return the job; a newer request stays."""
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.phase.is_terminal:
        state.anomalies[f"{fact.name} of no live job"] += 1
        return None
    record.wishes = without_answered(record.wishes, fact.causes)
    if record.requeue is not None and record.requeue.fact in fact.causes:
        record.requeue = None
    if record.edit is not None and record.edit.fact in fact.causes:
        record.edit = None
    return record


ENDING_S_MAX = 600.0
"""Time within which a run ends after it was asked to because contact was lost; a later end has another cause."""


@FOLDS.on("job", ("recall-forwarded", "drop-forwarded"), JobRecalled)
def _recalled(state: State, fact: Fact, recall: JobRecalled) -> None:
    """Recall the job: it is no longer placed, but earlier decisions stay valid. A drop overrides a recall."""
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.phase.is_terminal or record.assignment != recall.assignment:
        state.anomalies[f"{fact.name} of no live assignment"] += 1
        return
    drops = fact.name == "drop-forwarded"
    if record.recall is not None and record.recall_drops and not drops:
        return
    record.recall, record.recall_fact, record.recall_drops = recall, fact.id, drops
    state.due.mark_dirty(record.id)
    enlist(state, record)


@FOLDS.on("job", "return-refused", JobReturnRefused)
def _return_refused(state: State, fact: Fact, _: JobReturnRefused) -> None:
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.recall is None or record.recall_fact not in fact.causes:
        state.anomalies["return-refused out of turn"] += 1
        return
    record.recall, record.recall_fact = None, ""
    record.last_fact = fact.id
    state.due.mark_dirty(record.id)
    enlist(state, record)


@FOLDS.on("job", "returned", JobReturned)
def _returned(state: State, fact: Fact, returned: JobReturned) -> None:
    """Forget the job, which no longer belongs to this cluster, so that it may be routed here again."""
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.phase.is_terminal or record.assignment != returned.assignment:
        state.anomalies["returned out of turn"] += 1
        return
    has_places = record.phase in HOLDING
    state.pending.remove(record)
    state.jobs.move(record, Phase.CANCELLED)  # readers of the record see that nothing is left to do
    record.reserved = None
    if has_places:
        let_go(state, record, fact)
    state.runs.file(record)
    book_reserved(state.bookings, record)
    state.jobs.forget(record)
    state.arrivals.jobs.pop(record.id, None)
    state.due.dirty.pop(record.id, None)
    state.progress.generation += 1
    state.summary.is_stale = True


@FOLDS.on("cluster", "contact-renewed", ContactRenewed)
def _contact_renewed(state: State, fact: Fact, renewed: ContactRenewed) -> None:
    if state.status.contact.renewed(renewed, at=fact.time):
        _sort_again(state)
    if not state.status.contact.is_lost and state.status.contact_lost_at:
        _forgive(state, fact)


def _forgive(state: State, fact: Fact) -> None:
    """Attribute the end of runs that outlived the loss of contact to other causes from now on."""
    if fact.time < after(Instant(state.status.contact_lost_at), ENDING_S_MAX):
        return
    state.status.contact_lost_at = 0
    for record in state.jobs.records.values():
        if record.stop_detail == OUT_OF_CONTACT:
            record.stop_detail = ""


@FOLDS.on("cluster", "contact-lost", ContactLost)
def _contact_lost(state: State, fact: Fact, lost: ContactLost) -> None:
    """Set waiting jobs aside; the agent ends the running ones."""
    if not state.status.contact.lost(lost):
        state.anomalies["contact-lost out of turn"] += 1
        return
    _sort_again(state)
    for record in state.jobs.records.values():
        if record.lost_after_s and record.phase in HOLDING and record.phase is not Phase.STOPPING:
            record.stop_detail = OUT_OF_CONTACT
    state.status.contact_lost_at = fact.time


def _sort_again(state: State) -> None:
    for record in state.jobs.records.values():
        if record.lost_after_s and not record.phase.is_terminal:
            record.is_cut_off = state.status.contact.is_lost
            enlist(state, record)
    state.progress.generation += 1
