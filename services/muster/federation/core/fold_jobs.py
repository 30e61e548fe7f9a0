"""Folds of facts about jobs, and requests for a job other than its cancellation, of which the newest is forwarded.

Facts that fit no state are counted and ignored.
"""

from muster.core import Draft, Fact
from muster.core.folding import Folds
from muster.federation.core import reroutes
from muster.federation.core.state import RoutedJob, State
from muster.federation.core.turns import enlist
from muster.schemas.facts.federation import ClusterPhase
from muster.schemas.facts.job import JobCancelRequested, JobEnded, JobFinished, JobRouted, JobSubmitted, RoutedState
from muster.schemas.facts.job_requests import (
    Ask,
    JobEditRequested,
    JobHoldRequested,
    JobPriorityRequested,
    PendingEdit,
    PendingJobRequest,
    pending_job_request,
    pending_requeue,
    with_edit,
    with_pending,
    without_answered,
)
from muster.schemas.job import Phase
from muster.schemas.registry import STATE_NAME

FOLDS = Folds[State, None]()


def request_forwarded(record: RoutedJob) -> Draft | None:
    """Return the first request for a routed job as its cluster gets it; None if there is none."""
    job, requeue = record.job, record.requeue
    if not record.wishes:
        if record.edit is not None:
            name, edit = "edit-forwarded", record.edit
            return Draft("job", job.id, name, edit.asked, (edit.fact,), job.trace, cluster=record.cluster)
        if requeue is None:
            return None
        asked = JobHoldRequested(principal=requeue.principal, reason=requeue.reason)
        return Draft("job", job.id, "requeue-forwarded", asked, (requeue.fact,), job.trace, cluster=record.cluster)
    request = record.wishes[0]
    name = f"{request.ask.value}-forwarded"
    return Draft("job", job.id, name, _request_payload(request), (request.fact,), job.trace, cluster=record.cluster)


def _request_payload(request: PendingJobRequest) -> JobHoldRequested | JobPriorityRequested:
    if request.priority is None:
        return JobHoldRequested(principal=request.principal, reason=request.reason)
    return JobPriorityRequested(principal=request.principal, priority=request.priority, reason=request.reason)


@FOLDS.on(
    "job", ("hold-requested", "release-requested", "priority-requested"), (JobHoldRequested, JobPriorityRequested)
)
def _job_requested(state: State, fact: Fact, asked: JobHoldRequested | JobPriorityRequested) -> None:
    record = state.jobs.get(fact.subject_id)
    if record is None or record.phase.is_terminal:
        state.anomalies[f"{fact.name} of no live job"] += 1
        return
    ask = Ask(fact.name.removesuffix("-requested"))
    record.wishes = with_pending(record.wishes, pending_job_request(fact.id, ask, asked))
    state.dirty[record.job.id] = None


@FOLDS.on(
    "job", ("hold-forwarded", "release-forwarded", "priority-forwarded"), (JobHoldRequested, JobPriorityRequested)
)
def _job_request_forwarded(state: State, fact: Fact, _: JobHoldRequested | JobPriorityRequested) -> None:
    record = state.jobs.get(fact.subject_id)
    if record is None or record.phase.is_terminal:
        state.anomalies[f"{fact.name} of no live job"] += 1
        return
    told = [request for request in record.wishes if request.fact in fact.causes]
    record.wishes, record.last_fact = without_answered(record.wishes, fact.causes), fact.id
    for request in told:  # the next cluster needs the request, too
        record.standing = with_pending(record.standing, request)
    state.dirty[record.job.id] = None


@FOLDS.on("job", ("requeue-requested", "requeue-forwarded"), JobHoldRequested)
def _requeue(state: State, fact: Fact, asked: JobHoldRequested) -> None:
    record = state.jobs.get(fact.subject_id)
    if record is None or record.phase.is_terminal:
        state.anomalies[f"{fact.name} of no live job"] += 1
        return
    if fact.name == "requeue-requested":
        record.requeue = pending_requeue(fact.id, asked)
    else:
        record.last_fact = fact.id
        if record.requeue is not None and record.requeue.fact in fact.causes:
            record.requeue = None
    state.dirty[record.job.id] = None


@FOLDS.on("job", ("edit-requested", "edit-forwarded"), JobEditRequested)
def _edit(state: State, fact: Fact, asked: JobEditRequested) -> None:
    record = state.jobs.get(fact.subject_id)
    if record is None or record.phase.is_terminal:
        state.anomalies[f"{fact.name} of no live job"] += 1
        return
    if fact.name == "edit-requested":
        record.edit = with_edit(record.edit, PendingEdit(fact=fact.id, asked=asked))
    else:
        record.last_fact = fact.id
        if record.edit is not None and record.edit.fact in fact.causes:
            record.standing_edit, record.edit = with_edit(record.standing_edit, record.edit), None
    state.dirty[record.job.id] = None


@FOLDS.on("job", STATE_NAME, RoutedState)
def _load(state: State, _fact: Fact, stored: RoutedState) -> None:
    """Restore a job from a checkpoint."""
    record = RoutedJob.restored(stored)
    if record.cluster and not record.assignment:  # a checkpoint from before assignments were counted
        record.assignment = 1
    state.jobs[stored.job_id] = record
    if record.phase.is_terminal:
        state.ended[stored.job_id] = None
        return
    state.dirty[stored.job_id] = None
    state.check_address(record)
    if record.cluster:
        state.count(record)
        member = state.member_of(record)
        if member is not None and member.phase is ClusterPhase.LOST and record.lost_after_s:
            enlist(state, record)


@FOLDS.on("job", "submitted", JobSubmitted)
def _submitted(state: State, fact: Fact, submitted: JobSubmitted) -> None:
    job = submitted.job
    if job.id in state.jobs:
        state.anomalies["submitted twice"] += 1
        return
    missing: dict[str, object] = {}
    if not job.submitted_at:
        missing["submitted_at"] = fact.time
    if not job.trace and fact.trace:
        missing["trace"] = fact.trace
    state.jobs[job.id] = record = RoutedJob(
        job.model_copy(update=missing) if missing else job, job.id, last_fact=fact.id
    )
    state.check_address(record)
    state.dirty[job.id] = None


@FOLDS.on("job", "cancel-requested", JobCancelRequested)
def _cancel_requested(state: State, fact: Fact, asked: JobCancelRequested) -> None:
    record = state.jobs.get(fact.subject_id)
    if record is None or record.phase.is_terminal or record.cancel is not None:
        state.anomalies["cancel of no live job"] += 1
        return
    record.cancel, record.cancel_fact, record.cancel_requested = asked, fact.id, True
    state.dirty[record.job.id] = None
    if record.job.id in state.pending:
        enlist(state, record)


@FOLDS.on("job", "routed", JobRouted)
def _routed(state: State, fact: Fact, routed: JobRouted) -> None:
    record = state.jobs.get(fact.subject_id)
    if record is None or record.cluster or record.phase.is_terminal or routed.assignment <= record.assignment:
        state.anomalies["routed out of turn"] += 1
        return
    record.last_fact = fact.id
    state.assign(record, routed, at=fact.time)
    state.dirty[record.job.id] = None
    reroutes.leave_if_drained(state, record, fact)


@FOLDS.on("job", "cancel-forwarded", JobCancelRequested)
def _cancel_forwarded(state: State, fact: Fact, _: JobCancelRequested) -> None:
    record = state.jobs.get(fact.subject_id)
    if record is None or record.cancel is None or record.cancel_forwarded:
        state.anomalies["cancel-forwarded out of turn"] += 1
        return
    record.cancel_forwarded, record.last_fact = True, fact.id


@FOLDS.on("job", "cancelled", JobFinished)
def _cancelled(state: State, fact: Fact, _: JobFinished) -> None:
    record = state.jobs.get(fact.subject_id)
    if record is None or record.cluster or record.phase.is_terminal:
        state.anomalies["cancelled out of turn"] += 1
        return
    record.last_fact = fact.id
    state.end(record, Phase.CANCELLED)


@FOLDS.on("job", "job-ended", JobEnded)
def _job_ended(state: State, fact: Fact, ended: JobEnded) -> None:
    """Record the end of a job; the end of an earlier assignment only settles that assignment."""
    record = state.jobs.get(fact.subject_id)
    if record is None or record.phase.is_terminal:
        state.anomalies["job-ended out of turn"] += 1
        return
    if (record.cluster, record.assignment) != (ended.cluster, ended.assignment):
        reroutes.settle(state, record, ended.cluster, ended.assignment)
        return
    record.last_fact = fact.id
    member = state.member_of(record)
    state.end(record, ended.phase)
    if member is not None and len(state.members) > 1:
        member.went += 1
        member.free(record.milli, at=fact.time)
