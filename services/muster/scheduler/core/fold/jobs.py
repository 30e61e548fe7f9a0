"""Folds of facts about jobs."""

from itertools import chain

from muster.core import Fact, after
from muster.core.folding import Folds
from muster.scheduler.core.fold.updates import (
    begin_run,
    enlist,
    enter_slots,
    exclude,
    is_out_of_contact,
    let_go,
    recount,
    settle_job,
    touch,
)
from muster.scheduler.core.lifecycle.follow_ups import OUT_OF_CONTACT, first_attempt
from muster.scheduler.core.lifecycle.preflight import (
    EXCLUDED_MAX,
    is_gated,
)
from muster.scheduler.core.order import rank
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.jobs import HOLDING, TRANSITIONS, WAITING, JobRecord
from muster.schemas.facts.job import (
    JobCancelRequested,
    JobCheckpointed,
    JobFinished,
    JobPlaced,
    JobQueued,
    JobReservationLifted,
    JobReserved,
    JobResized,
    JobResizeRequested,
    JobRouted,
    JobRunning,
    JobStopRequested,
    JobUnschedulable,
    PodsExited,
    PodsOutcome,
    PodsResized,
    PodsStarted,
    QueuedReason,
)
from muster.schemas.facts.operations import PreflightFailed, PreflightPassed
from muster.schemas.job import Phase, Slot

FOLDS = Folds[State, None]()


@FOLDS.on("job", "routed", JobRouted)
def _routed(state: State, fact: Fact, routed: JobRouted) -> None:
    """Add the job; it may come again after an earlier assignment. Its wait on other clusters counts for its rank."""
    job = routed.job
    known = state.jobs.records.get(job.id)
    if known is not None and (not known.phase.is_terminal or routed.assignment <= known.assignment):
        state.anomalies["routed twice"] += 1
        return
    if known is not None:
        state.jobs.forget(known)
    came_at = after(fact.time, -routed.age_s) if routed.age_s else fact.time
    queue = state.queues.queue_for(job.spec.queue_name, job.principal)
    policy = state.queues.policy_for(queue, job.spec.queue_name)
    total_s, slice_s = policy.run_times(job.spec)
    record = JobRecord(
        job=job,
        phase=Phase.SUBMITTED,
        job_class=state.jobs.class_of(job, total_run_time_s=total_s, min_slice_s=slice_s),
        queue=queue,
        routed_seq=fact.seq,
        last_fact=fact.id,
        total_run_time_s=total_s,
        min_slice_s=slice_s,
        rank=rank(job, policy, came_at=came_at, used=state.queues.principal_share(queue, job.principal, fact.time)),
    )
    if routed.assignment > 1 or routed.lost_after_s:
        record.assignment, record.attempt = routed.assignment, first_attempt(routed.assignment)
        record.lost_after_s = routed.lost_after_s
        record.is_cut_off = is_out_of_contact(state, record)
        state.status.contact.is_wanted = state.status.contact.is_wanted or bool(routed.lost_after_s)
    state.jobs.add(record)
    state.arrivals.jobs[job.id] = None
    state.demand.count(record)
    state.arrivals.await_queue(record, state.queues)
    enlist(state, record)


@FOLDS.on("job", "cancel-forwarded", JobCancelRequested)
def _cancel(state: State, fact: Fact, _: JobCancelRequested) -> None:
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.phase.is_terminal or record.cancel_fact:
        state.anomalies["cancel of no live job"] += 1
        return
    record.cancel_requested, record.cancel_fact = True, fact.id
    state.due.mark_dirty(record.id)
    enlist(state, record)


@FOLDS.on("job", "pods-started", PodsStarted)
def _pods_started(state: State, fact: Fact, started: PodsStarted) -> None:
    record = _observed(state, fact, started.attempt)
    if record is not None and not record.started_fact:
        record.started_fact, record.started_at = fact.id, fact.time
        state.due.mark_dirty(record.id)
        if any(slot.gpus for slot in record.slots):  # else the scheduler chose the devices
            record.picked = tuple(chain.from_iterable(started.device_uuids))


@FOLDS.on("job", "pods-exited", PodsExited)
def _pods_exited(state: State, fact: Fact, exited: PodsExited) -> None:
    record = _observed(state, fact, exited.attempt)
    if record is not None and record.exited is None:
        record.exited, record.exited_fact, record.exited_at = exited, fact.id, fact.time
        if exited.outcome is not PodsOutcome.SUCCEEDED:
            record.lost_last_s = record.lost_by(fact.time)
        state.due.mark_dirty(record.id)


@FOLDS.on("job", "pods-resized", PodsResized)
def _pods_resized(state: State, fact: Fact, resized: PodsResized) -> None:
    record = _observed(state, fact, resized.attempt)
    if record is None:
        return
    if record.resize is None or len(record.resize.slots) != resized.slots:
        state.anomalies["resize of another size"] += 1
        return
    record.resized_fact = record.resized_fact or fact.id
    state.due.mark_dirty(record.id)


@FOLDS.on("job", "checkpointed", JobCheckpointed)
def _checkpointed(state: State, fact: Fact, checkpointed: JobCheckpointed) -> None:
    record = _observed(state, fact, checkpointed.attempt)
    if record is not None:
        record.checkpointed_at = fact.time
        state.progress.checkpoints += 1
        state.runs.file(record)


def _observed(state: State, fact: Fact, attempt: int) -> JobRecord | None:
    """Return the job whose current attempt was observed; count an anomaly and return None for another attempt."""
    record = state.jobs.records.get(fact.subject_id)
    if record is not None and record.phase in HOLDING and record.attempt == attempt:
        return record
    state.anomalies["observation of no present run"] += 1
    return None


def _moved(state: State, fact: Fact) -> JobRecord | None:
    """Move the job as this own fact says and return it; count an anomaly and return None if the move is invalid."""
    record = state.jobs.records.get(fact.subject_id)
    phase = TRANSITIONS.get((record.phase, fact.name)) if record is not None else None
    if record is None or phase is None:
        state.anomalies[f"{fact.name} out of turn"] += 1
        return None
    if record.phase is Phase.SUBMITTED:
        state.arrivals.jobs.pop(record.id, None)
    held = record.phase in HOLDING
    state.jobs.move(record, phase)
    if held and phase not in HOLDING:
        let_go(state, record, fact)
    touch(state, record, fact)
    return record


@FOLDS.on("job", "queued", JobQueued)
def _queued(state: State, fact: Fact, queued: JobQueued) -> None:
    record = _moved(state, fact)
    if record is None:
        return
    spec = record.job.spec
    record.slots = ()
    if queued.reason is QueuedReason.NODE_LOST:
        record.losses_in_row = 1 + (0 if record.made_progress(fact.time) else record.losses_in_row)
    record.attempt = queued.attempt
    record.queued_at, record.placed_at, record.running_at = fact.time, 0, 0
    record.queued_reason, record.queued_detail, record.requeued = queued.reason, queued.detail, queued.requeued
    queued.count_run(record)
    if queued.excluded:
        exclude(state, record, queued.excluded, most=EXCLUDED_MAX, at=fact.time)
    settle_job(
        state,
        record,
        queue=queued.queue,
        total_run_time_s=spec.total_run_time_s if queued.total_run_time_s is None else queued.total_run_time_s,
        min_slice_s=spec.min_slice_s if queued.min_slice_s is None else queued.min_slice_s,
    )
    enlist(state, record)


@FOLDS.on("job", "placed", JobPlaced)
def _placed(state: State, fact: Fact, placed: JobPlaced) -> None:
    record = _moved(state, fact)
    if record is None:
        return
    record.slots = placed.slots
    record.preflight_plan = placed.preflight
    record.attempt = placed.attempt
    record.placed_at = fact.time
    if is_out_of_contact(state, record):  # the agent ends the run as soon as it reads `placed`
        record.stop_detail = OUT_OF_CONTACT
    record.reason = record.detail = ""
    record.reserved = None
    state.pending.remove(record)
    enter_slots(state, record.id, record.slots, record.job_class.gang)
    recount(state, record, at=fact.time)


@FOLDS.on("job", "running", JobRunning)
def _running(state: State, fact: Fact, running: JobRunning) -> None:
    record = _moved(state, fact)
    if record is not None:
        record.running_at = fact.time
        record.preflight = running.preflight
        record.preflight_failures = 0
        begin_run(state, record)


@FOLDS.on("job", "stop-requested", JobStopRequested)
def _stop_requested(state: State, fact: Fact, stop: JobStopRequested) -> None:
    record = _moved(state, fact)
    if record is not None:
        record.stop_reason = stop.reason
        record.made_way_for = stop.made_way_for
        record.stop_detail = stop.detail
        record.requeued = stop.requeued
        if record.requeue is not None and record.requeue.fact in fact.causes:
            record.requeue = None


@FOLDS.on("job", "resize-requested", JobResizeRequested)
def _resize_requested(state: State, fact: Fact, resize: JobResizeRequested) -> None:
    """Hold new slots from now on; slots that are given up stay held until `resized`."""
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.phase is not Phase.RUNNING or record.attempt != resize.attempt or record.resize:
        state.anomalies["resize-requested out of turn"] += 1
        return
    before = record.held_slots
    record.resize, record.made_way_for = resize, resize.made_way_for
    _hold_now(state, record, before, fact)
    touch(state, record, fact)


@FOLDS.on("job", "resized", JobResized)
def _resized(state: State, fact: Fact, resized: JobResized) -> None:
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.resize is None or record.attempt != resized.attempt:
        state.anomalies["resized out of turn"] += 1
        return
    before = record.held_slots
    record.slots, record.resize = resized.slots, None
    record.resized_fact, record.made_way_for, record.resized_at = "", "", fact.time
    _hold_now(state, record, before, fact)
    touch(state, record, fact)


def _hold_now(state: State, record: JobRecord, before: tuple[Slot, ...], fact: Fact) -> None:
    after = record.held_slots
    if len(after) == len(before):
        return  # one set of slots is a part of the other
    state.ledger.free(record.id, before, fact=fact.id, seq=fact.seq)
    enter_slots(state, record.id, after, record.job_class.gang)
    record.picked = ()  # the devices that the kubelet picks or takes back are not reported
    recount(state, record, at=fact.time)


@FOLDS.on("job", "reserved", JobReserved)
def _reserved(state: State, fact: Fact, reserved: JobReserved) -> None:
    record = state.jobs.records.get(fact.subject_id)
    is_known = record is not None and record.phase in WAITING and record.held is None
    if record is None or not is_known or record.attempt != reserved.attempt:
        state.anomalies["reserved out of turn"] += 1
        return
    record.reserved = reserved
    touch(state, record, fact)


@FOLDS.on("job", "reservation-lifted", JobReservationLifted)
def _reservation_lifted(state: State, fact: Fact, _: JobReservationLifted) -> None:
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.reserved is None:
        state.anomalies["reservation-lifted out of turn"] += 1
        return
    record.reserved = None
    touch(state, record, fact)


@FOLDS.on("job", ("succeeded", "failed", "cancelled", "timed-out"), JobFinished)
def _ended(state: State, fact: Fact, finished: JobFinished) -> None:
    record = _moved(state, fact)
    if record is not None:
        record.ended_at = fact.time
        record.ran_s, record.exit_code = finished.ran_s, finished.exit_code
        record.lost_last_s = 0.0
        record.reason, record.detail = finished.reason, ""
        record.reserved = record.held = None
        record.wishes, record.requeue, record.edit = (), None, None
        state.pending.remove(record)
        state.due.dirty.pop(record.id, None)


@FOLDS.on("job", "unschedulable", JobUnschedulable)
def _unschedulable(state: State, fact: Fact, short: JobUnschedulable) -> None:
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.phase not in WAITING:
        state.anomalies["unschedulable out of turn"] += 1
        return
    record.reason, record.detail, record.explained_at = short.reason, short.detail, fact.time
    state.pending.reported(record)


@FOLDS.on("job", "preflight-passed", PreflightPassed)
def _preflight_passed(state: State, fact: Fact, passed: PreflightPassed) -> None:
    record = _gated(state, fact, passed.attempt)
    if record is not None:
        record.preflight_fact = fact.id
        state.due.mark_dirty(record.id)


@FOLDS.on("job", "preflight-failed", PreflightFailed)
def _preflight_failed(state: State, fact: Fact, failed: PreflightFailed) -> None:
    record = _gated(state, fact, failed.attempt)
    if record is not None:
        record.preflight_failed, record.preflight_failed_fact = failed, fact.id
        state.due.mark_dirty(record.id)


def _gated(state: State, fact: Fact, attempt: int) -> JobRecord | None:
    """Return the job that waits for this verdict; count an anomaly and return None if there is none."""
    record = state.jobs.records.get(fact.subject_id)
    is_present = record is not None and record.phase in HOLDING and record.attempt == attempt
    if record is not None and is_present and is_gated(record) and record.preflight_failed is None:
        return record if record.phase is not Phase.RUNNING else None
    state.anomalies[f"{fact.name} of no waiting run"] += 1
    return None
