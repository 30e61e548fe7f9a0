"""How each fact changes what the scheduler believes. What fits no state is counted and changes nothing."""

import heapq
from collections.abc import Callable

from muster.core import Fact
from muster.scheduler.core.jobs import HOLDING, TRANSITIONS, WAITING, JobRecord, record_of
from muster.scheduler.core.state import State
from muster.schemas.facts.control import ClusterState, ClusterSummary
from muster.schemas.facts.job import (
    JobFinished,
    JobPlaced,
    JobQueued,
    JobRouted,
    JobRunning,
    JobState,
    JobStopRequested,
    JobUnschedulable,
    PodsExited,
    PodsStarted,
    QueuedReason,
)
from muster.schemas.facts.node import GrantState, NodeJoined, NodeState, Withheld, WithholdRequested
from muster.schemas.facts.queue import QueueChanged, QueueChangeRequested, QueueState, QueueWish
from muster.schemas.job import Phase

Handler = Callable[[State, Fact], None]


def fold(state: State, fact: Fact) -> None:
    """One fact further. Facts that the scheduler has no use for cost one look-up."""
    handler = HANDLERS.get((fact.kind, fact.name))
    if handler is not None:
        handler(state, fact)
    if fact.name != "state-recorded":
        state.facts += 1
        state.checkpoint_cause = fact.id


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


def _change_forwarded(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, QueueChangeRequested)
    wish = fact.payload
    state.queues.wishes[fact.id] = QueueWish(fact=fact.id, spec=wish.spec, principal=wish.principal, trace=fact.trace)


def _changed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, QueueChanged)
    _answer_wish(state, fact)
    _set_queue(state, fact.payload.spec.name, QueueState(spec=fact.payload.spec, changed_at=fact.time))


def _change_refused(state: State, fact: Fact) -> None:
    _answer_wish(state, fact)


def _answer_wish(state: State, fact: Fact) -> None:
    answered = [state.queues.wishes.pop(cause) for cause in fact.causes if cause in state.queues.wishes]
    if not answered:
        state.anomalies["queue change nobody asked for"] += 1


def _set_queue(state: State, name: str, queue: QueueState) -> None:
    is_new = name not in state.queues.queues
    state.queues.set(queue.spec, changed_at=queue.changed_at)
    if is_new:
        _recount(state, name)
    for job_id in state.arrivals:  # those of a queue that came, closed or opened; limits are judged by the cycle
        state.enlist(state.jobs.records[job_id])
    state.line.reopen()


def _joined(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, NodeJoined)
    state.books.join(fact.subject_id, fact.payload, fact=fact.id)
    state.summary_stale = True


def _lost(state: State, fact: Fact) -> None:
    _set_lost(state, fact, lost=True)


def _returned(state: State, fact: Fact) -> None:
    _set_lost(state, fact, lost=False)


def _set_lost(state: State, fact: Fact, *, lost: bool) -> None:
    if not state.books.set_lost(fact.subject_id, lost, fact=fact.id):
        state.anomalies[f"{fact.name} of no node"] += 1
    state.summary_stale = True


def _left(state: State, fact: Fact) -> None:
    if not state.books.leave(fact.subject_id, fact=fact.id):
        state.anomalies["left of no node"] += 1
    state.summary_stale = True


def _withhold_requested(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, WithholdRequested)
    if not state.books.ask(fact.kind, fact.subject_id, fact.payload, fact=fact.id):
        state.anomalies["withhold requested twice"] += 1
    state.summary_stale = True


def _withheld(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, Withheld)
    if not state.books.answered(fact.kind, fact.subject_id, fact.payload.request_id):
        state.anomalies["withheld out of turn"] += 1


def _released(state: State, fact: Fact) -> None:
    if not state.books.release(fact.kind, fact.subject_id, fact=fact.id, seq=fact.seq):
        state.anomalies["released out of turn"] += 1
    state.summary_stale = True


def _summarised(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, ClusterSummary)
    state.summary, state.summarised_at = fact.payload, fact.time
    state.summary_stale = True  # what moved since the numbers were taken is not in them


def _checkpoint_requested(state: State, _fact: Fact) -> None:
    state.facts = -1  # this one itself is counted afterwards


def _state_recorded(state: State, fact: Fact) -> None:
    match fact.payload:
        case JobState():
            _load_job(state, fact.payload)
        case QueueState():
            _set_queue(state, fact.subject_id, fact.payload)
        case GrantState():
            state.books.load_grant(fact.kind, fact.subject_id, fact.payload)
        case NodeState(description=description, lost=lost):
            state.books.load_node(fact.subject_id, description, lost=lost, fact=fact.payload.last_fact)
        case ClusterState() as cluster:
            state.summary, state.summarised_at = cluster.summary, cluster.summarised_at
            state.queues.wishes.update({wish.fact: wish for wish in cluster.wishes})
        case _:
            return  # another service's view of its own subjects
    state.summary_stale = True


def _load_job(state: State, stored: JobState) -> None:
    if stored.job.id in state.jobs.records:
        state.anomalies["state recorded twice"] += 1
        return
    record = record_of(stored, state.jobs.kind_of(stored.job))
    state.jobs.add(record)
    if record.phase.is_terminal:
        return
    state.demand.count(record)
    state.dirty[record.id] = None
    if record.phase is Phase.SUBMITTED:
        state.arrivals[record.id] = None
    if record.phase in HOLDING:
        state.books.confirm(record.id, record.slots, record.kind.gang)
        state.queues.hold(record.queue, record.held_milli)
    if record.phase is Phase.RUNNING:
        heapq.heappush(state.deadlines, (record.deadline(), record.id, record.attempt))
    state.enlist(record)


def _recount(state: State, queue: str) -> None:
    """Count what the jobs of a queue hold that came after them: parts of a checkpoint come in any order."""
    held = sum(r.held_milli for r in state.jobs.records.values() if r.queue == queue and r.phase in HOLDING)
    state.queues.hold(queue, held - state.queues.queues[queue].own_milli)


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
    ("queue", "change-forwarded"): _change_forwarded,
    ("queue", "changed"): _changed,
    ("queue", "change-refused"): _change_refused,
    ("node", "joined"): _joined,
    ("node", "lost"): _lost,
    ("node", "returned"): _returned,
    ("node", "left"): _left,
    **{(kind, "withhold-requested"): _withhold_requested for kind in ("node", "device")},
    **{(kind, "withheld"): _withheld for kind in ("node", "device")},
    **{(kind, "released"): _released for kind in ("node", "device")},
    ("cluster", "summarised"): _summarised,
    ("log", "checkpoint-requested"): _checkpoint_requested,
    **{(kind, "state-recorded"): _state_recorded for kind in ("job", "queue", "node", "device", "cluster")},
}
