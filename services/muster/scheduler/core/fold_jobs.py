"""How facts about jobs change what the scheduler believes."""

import heapq

from muster.core import Fact
from muster.scheduler.core.jobs import HOLDING, TRANSITIONS, WAITING, JobRecord
from muster.scheduler.core.state import Handler, State
from muster.schemas.facts.job import (
    JobFinished,
    JobPlaced,
    JobQueued,
    JobRouted,
    JobRunning,
    JobStopRequested,
    JobUnschedulable,
    PodsExited,
    PodsStarted,
    QueuedReason,
)
from muster.schemas.job import Phase


def _routed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobRouted)
    job = fact.payload.job
    if job.id in state.jobs.records:
        state.anomalies["routed twice"] += 1
        return
    record = JobRecord(
        job=job,
        kind=state.jobs.kind_of(job),
        queue=job.spec.queue_name,
        routed_seq=fact.seq,
        last_fact=fact.id,
        total_run_time_s=job.spec.total_run_time_s,
        min_slice_s=job.spec.min_slice_s,
        rank=fact.seq,
    )
    state.jobs.add(record)
    state.arrivals[job.id] = None
    state.demand.count(record)
    state.enlist(record)


def _cancel(state: State, fact: Fact) -> None:
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.phase.is_terminal or record.cancel_fact:
        state.anomalies["cancel of no live job"] += 1
        return
    record.cancel_fact = fact.id
    state.dirty[record.id] = None
    state.enlist(record)


def _pods_started(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, PodsStarted)
    record = _observed(state, fact, fact.payload.attempt)
    if record is not None and not record.started_fact:
        record.started_fact = fact.id
        state.dirty[record.id] = None


def _pods_exited(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, PodsExited)
    record = _observed(state, fact, fact.payload.attempt)
    if record is not None and record.exited is None:
        record.exited, record.exited_fact = fact.payload, fact.id
        state.dirty[record.id] = None


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
        state.arrivals.pop(record.id, None)
    if phase not in HOLDING and record.phase in HOLDING:
        _let_go(state, record, fact)
    state.jobs.move(record, phase)
    record.last_fact = fact.id
    state.dirty[record.id] = None
    state.summary_stale = True
    return record


def _let_go(state: State, record: JobRecord, fact: Fact) -> None:
    """The run is over: nothing is held, and what was observed of it is answered."""
    state.books.free(record.id, record.slots, fact=fact.id, seq=fact.seq)
    state.queues.hold(record.queue, -record.held_milli)
    state.line.relieved.update(state.queues.path(record.queue))
    if record.exited is not None:
        record.ran_s += record.exited.ran_s
        record.exit_code = record.exited.exit_code
    record.started_fact = record.exited_fact = ""
    record.exited = record.stop_reason = None


def _queued(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobQueued)
    record = _moved(state, fact)
    if record is None:
        return
    record.slots = ()
    record.attempt = fact.payload.attempt
    record.queued_at, record.placed_at, record.running_at = fact.time, 0, 0
    record.queued_reason, record.queued_detail = fact.payload.reason, fact.payload.detail
    record.retries_used += fact.payload.reason is QueuedReason.RETRY
    record.node_losses += fact.payload.reason is QueuedReason.NODE_LOST
    state.enlist(record)


def _placed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobPlaced)
    record = _moved(state, fact)
    if record is None:
        return
    record.slots = fact.payload.slots
    record.attempt = fact.payload.attempt
    record.placed_at = fact.time
    record.reason = record.detail = ""
    state.line.remove(record)
    state.books.confirm(record.id, record.slots, record.kind.gang)
    state.queues.hold(record.queue, record.held_milli)


def _running(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobRunning)
    record = _moved(state, fact)
    if record is not None:
        record.running_at = fact.time
        record.preflight = fact.payload.preflight
        heapq.heappush(state.deadlines, (record.deadline(), record.id, record.attempt))


def _stop_requested(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobStopRequested)
    record = _moved(state, fact)
    if record is not None:
        record.stop_reason = fact.payload.reason


def _ended(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobFinished)
    record = _moved(state, fact)
    if record is not None:
        record.ended_at = fact.time
        record.ran_s, record.exit_code = fact.payload.ran_s, fact.payload.exit_code
        record.reason, record.detail = fact.payload.reason, ""
        state.line.remove(record)
        state.dirty.pop(record.id, None)


def _unschedulable(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobUnschedulable)
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.phase not in WAITING:
        state.anomalies["unschedulable out of turn"] += 1
        return
    record.reason, record.detail, record.explained_at = fact.payload.reason, fact.payload.detail, fact.time
    state.line.told(record)


HANDLERS: dict[tuple[str, str], Handler] = {
    ("job", "routed"): _routed,
    ("job", "cancel-forwarded"): _cancel,
    ("job", "pods-started"): _pods_started,
    ("job", "pods-exited"): _pods_exited,
    ("job", "queued"): _queued,
    ("job", "placed"): _placed,
    ("job", "running"): _running,
    ("job", "stop-requested"): _stop_requested,
    ("job", "unschedulable"): _unschedulable,
    **{("job", name): _ended for name in ("succeeded", "failed", "cancelled", "timed-out")},
}
