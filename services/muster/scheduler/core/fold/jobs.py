"""How facts about jobs change what the scheduler believes."""

from itertools import chain

from muster.core import Fact, after
from muster.scheduler.core.fold.updates import (
    Handler,
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
from muster.scheduler.core.queue.rank import rank
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.jobs import HOLDING, TRANSITIONS, WAITING, JobRecord
from muster.schemas.facts.job import (
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


def _routed(state: State, fact: Fact) -> None:
    """A job may come again when an earlier assignment is over. What it waited elsewhere counts for its place."""
    assert isinstance(fact.payload, JobRouted)
    routed, job = fact.payload, fact.payload.job
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


def _cancel(state: State, fact: Fact) -> None:
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.phase.is_terminal or record.cancel_fact:
        state.anomalies["cancel of no live job"] += 1
        return
    record.cancel_requested, record.cancel_fact = True, fact.id
    state.due.mark_dirty(record.id)
    enlist(state, record)


def _pods_started(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, PodsStarted)
    record = _observed(state, fact, fact.payload.attempt)
    if record is not None and not record.started_fact:
        record.started_fact, record.started_at = fact.id, fact.time
        state.due.mark_dirty(record.id)
        if any(slot.gpus for slot in record.slots):  # else the scheduler chose the devices
            record.picked = tuple(chain.from_iterable(fact.payload.device_uuids))


def _pods_exited(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, PodsExited)
    record = _observed(state, fact, fact.payload.attempt)
    if record is not None and record.exited is None:
        record.exited, record.exited_fact, record.exited_at = fact.payload, fact.id, fact.time
        if fact.payload.outcome is not PodsOutcome.SUCCEEDED:
            record.lost_last_s = record.lost_by(fact.time)
        state.due.mark_dirty(record.id)


def _pods_resized(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, PodsResized)
    record = _observed(state, fact, fact.payload.attempt)
    if record is None:
        return
    if record.resize is None or len(record.resize.slots) != fact.payload.slots:
        state.anomalies["resize of another size"] += 1
        return
    record.resized_fact = record.resized_fact or fact.id
    state.due.mark_dirty(record.id)


def _checkpointed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobCheckpointed)
    record = _observed(state, fact, fact.payload.attempt)
    if record is not None:
        record.checkpointed_at = fact.time
        state.progress.checkpoints += 1
        state.runs.file(record)


def _observed(state: State, fact: Fact, attempt: int) -> JobRecord | None:
    """The job whose present run was observed; None, counted, if that run is over or was never placed."""
    record = state.jobs.records.get(fact.subject_id)
    if record is not None and record.phase in HOLDING and record.attempt == attempt:
        return record
    state.anomalies["observation of no present run"] += 1
    return None


def _moved(state: State, fact: Fact) -> JobRecord | None:
    """The job that this own fact moves, moved; None, counted, if it cannot move so."""
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


def _queued(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobQueued)
    record = _moved(state, fact)
    if record is None:
        return
    payload, spec = fact.payload, record.job.spec
    record.slots = ()
    if payload.reason is QueuedReason.NODE_LOST:
        record.losses_in_row = 1 + (0 if record.made_progress(fact.time) else record.losses_in_row)
    record.attempt = payload.attempt
    record.queued_at, record.placed_at, record.running_at = fact.time, 0, 0
    record.queued_reason, record.queued_detail = payload.reason, payload.detail
    payload.count_run(record)
    if payload.excluded:
        exclude(state, record, payload.excluded, most=EXCLUDED_MAX, at=fact.time)
    settle_job(
        state,
        record,
        queue=payload.queue,
        total_run_time_s=spec.total_run_time_s if payload.total_run_time_s is None else payload.total_run_time_s,
        min_slice_s=spec.min_slice_s if payload.min_slice_s is None else payload.min_slice_s,
    )
    enlist(state, record)


def _placed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobPlaced)
    record = _moved(state, fact)
    if record is None:
        return
    record.slots = fact.payload.slots
    record.preflight_plan = fact.payload.preflight
    record.attempt = fact.payload.attempt
    record.placed_at = fact.time
    if is_out_of_contact(state, record):  # the agent ends the run as soon as it hears of it
        record.stop_detail = OUT_OF_CONTACT
    record.reason = record.detail = ""
    record.reserved = None
    state.pending.remove(record)
    enter_slots(state, record.id, record.slots, record.job_class.gang)
    recount(state, record, at=fact.time)


def _running(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobRunning)
    record = _moved(state, fact)
    if record is not None:
        record.running_at = fact.time
        record.preflight = fact.payload.preflight
        record.preflight_failures = 0
        begin_run(state, record)


def _stop_requested(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobStopRequested)
    record = _moved(state, fact)
    if record is not None:
        record.stop_reason = fact.payload.reason
        record.made_way_for = fact.payload.made_way_for
        record.stop_detail = fact.payload.detail


def _resize_requested(state: State, fact: Fact) -> None:
    """What is new is held from here on; what is given up stays held until `resized`."""
    assert isinstance(fact.payload, JobResizeRequested)
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.phase is not Phase.RUNNING or record.attempt != fact.payload.attempt or record.resize:
        state.anomalies["resize-requested out of turn"] += 1
        return
    before = record.held_slots
    record.resize, record.made_way_for = fact.payload, fact.payload.made_way_for
    _hold_now(state, record, before, fact)
    touch(state, record, fact)


def _resized(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobResized)
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.resize is None or record.attempt != fact.payload.attempt:
        state.anomalies["resized out of turn"] += 1
        return
    before = record.held_slots
    record.slots, record.resize = fact.payload.slots, None
    record.resized_fact, record.made_way_for, record.resized_at = "", "", fact.time
    _hold_now(state, record, before, fact)
    touch(state, record, fact)


def _hold_now(state: State, record: JobRecord, before: tuple[Slot, ...], fact: Fact) -> None:
    """A job that goes on holds other slots than before."""
    after = record.held_slots
    if len(after) == len(before):
        return  # each is a part of the other
    state.ledger.free(record.id, before, fact=fact.id, seq=fact.seq)
    enter_slots(state, record.id, after, record.job_class.gang)
    record.picked = ()  # which of them the kubelet picks, or takes back, is not told
    recount(state, record, at=fact.time)


def _reserved(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobReserved)
    record = state.jobs.records.get(fact.subject_id)
    is_known = record is not None and record.phase in WAITING and record.held is None
    if record is None or not is_known or record.attempt != fact.payload.attempt:
        state.anomalies["reserved out of turn"] += 1
        return
    record.reserved = fact.payload
    touch(state, record, fact)


def _reservation_lifted(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobReservationLifted)
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.reserved is None:
        state.anomalies["reservation-lifted out of turn"] += 1
        return
    record.reserved = None
    touch(state, record, fact)


def _ended(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobFinished)
    record = _moved(state, fact)
    if record is not None:
        record.ended_at = fact.time
        record.ran_s, record.exit_code = fact.payload.ran_s, fact.payload.exit_code
        record.lost_last_s = 0.0
        record.reason, record.detail = fact.payload.reason, ""
        record.reserved = record.held = None
        record.wishes = ()
        state.pending.remove(record)
        state.due.dirty.pop(record.id, None)


def _unschedulable(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobUnschedulable)
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.phase not in WAITING:
        state.anomalies["unschedulable out of turn"] += 1
        return
    record.reason, record.detail, record.explained_at = fact.payload.reason, fact.payload.detail, fact.time
    state.pending.reported(record)


def _preflight_passed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, PreflightPassed)
    record = _gated(state, fact, fact.payload.attempt)
    if record is not None:
        record.preflight_fact = fact.id
        state.due.mark_dirty(record.id)


def _preflight_failed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, PreflightFailed)
    record = _gated(state, fact, fact.payload.attempt)
    if record is not None:
        record.preflight_failed, record.preflight_failed_fact = fact.payload, fact.id
        state.due.mark_dirty(record.id)


def _gated(state: State, fact: Fact, attempt: int) -> JobRecord | None:
    """The job whose run waits for this verdict; None, counted, if none does, or another one came first."""
    record = state.jobs.records.get(fact.subject_id)
    is_present = record is not None and record.phase in HOLDING and record.attempt == attempt
    if record is not None and is_present and is_gated(record) and record.preflight_failed is None:
        return record if record.phase is not Phase.RUNNING else None
    state.anomalies[f"{fact.name} of no waiting run"] += 1
    return None


HANDLERS: dict[tuple[str, str], Handler] = {
    ("job", "routed"): _routed,
    ("job", "cancel-forwarded"): _cancel,
    ("job", "pods-started"): _pods_started,
    ("job", "pods-exited"): _pods_exited,
    ("job", "pods-resized"): _pods_resized,
    ("job", "checkpointed"): _checkpointed,
    ("job", "queued"): _queued,
    ("job", "placed"): _placed,
    ("job", "running"): _running,
    ("job", "stop-requested"): _stop_requested,
    ("job", "resize-requested"): _resize_requested,
    ("job", "resized"): _resized,
    ("job", "reserved"): _reserved,
    ("job", "reservation-lifted"): _reservation_lifted,
    ("job", "unschedulable"): _unschedulable,
    **{("job", name): _ended for name in ("succeeded", "failed", "cancelled", "timed-out")},
    ("job", "preflight-passed"): _preflight_passed,
    ("job", "preflight-failed"): _preflight_failed,
}
