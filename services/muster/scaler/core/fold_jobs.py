"""Fold facts about jobs: what they ask for, what they hold, why they wait."""

from collections.abc import Callable

from muster.core import Fact
from muster.scaler.core.jobs import WAITING, JobRecord
from muster.scaler.core.state import State
from muster.schemas.facts.job import (
    JobPlaced,
    JobQueued,
    JobReserved,
    JobRouted,
    JobUnschedulable,
)
from muster.schemas.facts.job_wishes import JobHeld
from muster.schemas.job import Phase


def _routed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobRouted)
    job = fact.payload.job
    if job.id in state.jobs.records:
        state.anomalies["routed twice"] += 1
        return
    state.jobs.add(job, queue=job.spec.queue_name, routed_seq=fact.seq)


def _queued(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobQueued)
    record = _known(state, fact)
    if record is None:
        return
    leave(state, record)
    apply_hold(state, record, fact, at=fact.time)
    state.jobs.move_to(record, fact.payload.queue)
    record.phase, record.queued_at = Phase.QUEUED, fact.time


def _placed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobPlaced)
    record = _known(state, fact)
    if record is None or record.phase not in WAITING:
        state.anomalies["placed out of turn"] += 1
        return
    leave(state, record)
    lift_kept(state, record)
    record.phase = Phase.PLACED
    record.reason = record.detail = record.reason_fact = ""
    record.awaits_preemption = False
    state.jobs.served_at.pop(record.id, None)
    state.refused.pop(record.id, None)
    apply_hold(state, record, fact, at=fact.time)


def _pods_started(state: State, fact: Fact) -> None:
    """Where the kubelet picked the devices it is told which."""
    state.cluster.holds.apply(fact)
    hold = state.cluster.holds.jobs.get(fact.subject_id)
    if hold is not None:
        state.cluster.changed.mark_all(slot.node for slot in hold.held if slot.gpus)


def _ended(state: State, fact: Fact) -> None:
    """It is over, or another cluster's from here on: it asks for nothing here."""
    record = _known(state, fact)
    if record is None:
        return
    leave(state, record)
    lift_kept(state, record)
    apply_hold(state, record, fact, at=fact.time)
    state.jobs.remove(record)
    state.refused.pop(record.id, None)


def _cancelled(state: State, fact: Fact) -> None:
    record = _known(state, fact)
    if record is not None:
        lift_kept(state, record)
        leave(state, record)
        record.cancelled = True


def _held(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobHeld)
    record = _known(state, fact)
    if record is None or record.phase not in WAITING:
        state.anomalies[f"{fact.name} out of turn"] += 1
        return
    lift_kept(state, record)
    leave(state, record)
    record.held, record.awaits_preemption = fact.name == "held", False
    record.reason, record.detail = "held" if record.held else "released", fact.payload.words


def _unschedulable(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobUnschedulable)
    record = _known(state, fact)
    if record is None or record.phase not in WAITING:
        state.anomalies["unschedulable out of turn"] += 1
        return
    record.reason, record.detail = fact.payload.reason, fact.payload.detail
    record.reason_fact, record.reason_at = fact.id, fact.time
    state.demand.put(record)


def _reservation_changed(state: State, fact: Fact) -> None:
    awaits_preemption = isinstance(fact.payload, JobReserved) and bool(fact.payload.victims)
    record = _known(state, fact)
    if record is not None and record.awaits_preemption != awaits_preemption:
        if awaits_preemption:
            leave(state, record)
        record.awaits_preemption = awaits_preemption
        state.demand.put(record)


def _resized(state: State, fact: Fact) -> None:
    """What is new is held from `resize-requested` on; what is given up stays held until `resized`."""
    record = _known(state, fact)
    if record is not None:
        apply_hold(state, record, fact, at=fact.time)


def apply_hold(state: State, record: JobRecord, fact: Fact, *, at: int) -> None:
    """Fold what the job holds, and place it accordingly. at 0: a checkpoint says so."""
    before = state.cluster.slots_held(record.id)
    change = state.cluster.holds.apply(fact)
    if change is None:
        return
    state.cluster.changed.mark_all(slot.node for slot in before)
    if before:
        state.cluster.ledger.free(record.id, before, fact=fact.id, seq=fact.seq)
    after = state.cluster.slots_held(record.id)
    state.cluster.ledger.take(record.id, after, record.shape.gang)
    state.cluster.changed.mark_all(slot.node for slot in after)
    state.changes.freed += bool(change.freed)
    state.changes.taken += bool(change.taken)
    state.recount(record, at=at)


def leave(state: State, record: JobRecord) -> None:
    """The job waits no longer, or not as it did: what it would have taken is there for others."""
    if state.demand.drop(record):
        state.changes.freed += 1


def lift_kept(state: State, record: JobRecord) -> None:
    """Nothing is kept for the job any more where something is on its way for it."""
    for choice in state.choices.of_job.get(record.id, {}).values():
        state.cluster.lift(choice.nodes)
        state.changes.added += 1


def _known(state: State, fact: Fact) -> JobRecord | None:
    record = state.jobs.records.get(fact.subject_id)
    if record is None:
        state.anomalies[f"{fact.name} of no live job"] += 1
    return record


JOB_HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    ("job", "routed"): _routed,
    ("job", "cancel-forwarded"): _cancelled,
    **{("job", name): _held for name in ("held", "unheld")},
    ("job", "queued"): _queued,
    ("job", "placed"): _placed,
    ("job", "pods-started"): _pods_started,
    **{("job", name): _resized for name in ("resize-requested", "resized")},
    **{("job", name): _reservation_changed for name in ("reserved", "reservation-lifted")},
    ("job", "unschedulable"): _unschedulable,
    **{("job", name): _ended for name in ("succeeded", "failed", "cancelled", "timed-out", "returned")},
}
