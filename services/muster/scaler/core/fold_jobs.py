"""Fold facts about jobs: what they ask for, what they hold, why they wait."""

from collections.abc import Callable
from itertools import chain

from muster.core import Fact
from muster.scaler.core.jobs import WAITING, JobRecord
from muster.scaler.core.state import State
from muster.schemas.facts.job import (
    JobPlaced,
    JobQueued,
    JobReserved,
    JobResized,
    JobResizeRequested,
    JobRouted,
    JobUnschedulable,
    PodsStarted,
)
from muster.schemas.facts.job_wishes import JobHeld
from muster.schemas.job import Phase, Slot


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
    free(state, record, fact=fact.id, seq=fact.seq, at=fact.time)
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
    record.phase, record.slots = Phase.PLACED, fact.payload.slots
    record.reason = record.detail = record.reason_fact = ""
    record.awaits_preemption = False
    state.served_at.pop(record.id, None)
    state.refused.pop(record.id, None)
    hold(state, record, record.slots, at=fact.time)


def _pods_started(state: State, fact: Fact) -> None:
    """Where the kubelet picked the devices it is told which."""
    assert isinstance(fact.payload, PodsStarted)
    record = state.jobs.records.get(fact.subject_id)
    if record is None or record.phase is not Phase.PLACED:
        return
    if state.ledger.pick(record.id, record.slots, chain.from_iterable(fact.payload.device_uuids)):
        state.changed.mark_all(slot.node for slot in record.slots)


def _ended(state: State, fact: Fact) -> None:
    """It is over, or another cluster's from here on: it asks for nothing here."""
    record = _known(state, fact)
    if record is None:
        return
    leave(state, record)
    lift_kept(state, record)
    free(state, record, fact=fact.id, seq=fact.seq, at=fact.time)
    state.jobs.remove(record)
    state.served_at.pop(record.id, None)
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


def _reserved(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobReserved)
    _set_awaits_preemption(state, fact, bool(fact.payload.victims))


def _reservation_lifted(state: State, fact: Fact) -> None:
    _set_awaits_preemption(state, fact, False)


def _set_awaits_preemption(state: State, fact: Fact, awaits_preemption: bool) -> None:
    record = _known(state, fact)
    if record is not None and record.awaits_preemption != awaits_preemption:
        if awaits_preemption:
            leave(state, record)
        record.awaits_preemption = awaits_preemption
        state.demand.put(record)


def _resize_requested(state: State, fact: Fact) -> None:
    """What is new is held from here on; what is given up stays held until `resized`."""
    assert isinstance(fact.payload, JobResizeRequested)
    record = _known(state, fact)
    if record is None or record.phase in WAITING or record.resize is not None:
        state.anomalies["resize-requested out of turn"] += 1
        return
    before = record.held_slots
    record.resize = fact.payload
    _hold_now(state, record, before, fact)


def _resized(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobResized)
    record = _known(state, fact)
    if record is None or record.resize is None:
        state.anomalies["resized out of turn"] += 1
        return
    before = record.held_slots
    record.slots, record.resize = fact.payload.slots, None
    _hold_now(state, record, before, fact)


def _hold_now(state: State, record: JobRecord, before: tuple[Slot, ...], fact: Fact) -> None:
    """A job that goes on holds other slots than before."""
    after = record.held_slots
    if len(after) == len(before):
        return  # each is a part of the other
    state.ledger.free(record.id, before, fact=fact.id, seq=fact.seq)
    state.ledger.take(record.id, after, record.shape.gang)
    state.freed += len(after) < len(before)
    state.taken += len(after) > len(before)
    state.changed.mark_all(slot.node for slot in (*before, *after))
    state.recount(record, at=fact.time)


def hold(state: State, record: JobRecord, slots: tuple[Slot, ...], *, at: int) -> None:
    """The job holds these slots. at 0: a checkpoint says so."""
    state.ledger.take(record.id, slots, record.shape.gang)
    state.changed.mark_all(slot.node for slot in slots)
    state.taken += 1
    state.recount(record, at=at)


def free(state: State, record: JobRecord, *, fact: str, seq: int, at: int) -> None:
    """The job holds nothing any more."""
    slots = record.held_slots
    if not slots:
        return
    state.changed.mark_all(slot.node for slot in slots)
    state.ledger.free(record.id, slots, fact=fact, seq=seq)
    state.freed += 1
    record.slots, record.resize = (), None
    state.recount(record, at=at)


def leave(state: State, record: JobRecord) -> None:
    """The job waits no longer, or not as it did: what it would have taken is there for others."""
    if state.demand.drop(record):
        state.freed += 1


def lift_kept(state: State, record: JobRecord) -> None:
    """Nothing is kept for the job any more where something is on its way for it."""
    for choice in state.choices.of_job.get(record.id, {}).values():
        state.lift(choice.nodes)
        state.supply += 1


def _known(state: State, fact: Fact) -> JobRecord | None:
    record = state.jobs.records.get(fact.subject_id)
    if record is None:
        state.anomalies[f"{fact.name} of no live job"] += 1
    return record


JOB_HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    ("job", "routed"): _routed,
    ("job", "cancel-forwarded"): _cancelled,
    ("job", "held"): _held,
    ("job", "unheld"): _held,
    ("job", "queued"): _queued,
    ("job", "placed"): _placed,
    ("job", "pods-started"): _pods_started,
    ("job", "resize-requested"): _resize_requested,
    ("job", "resized"): _resized,
    ("job", "reserved"): _reserved,
    ("job", "reservation-lifted"): _reservation_lifted,
    ("job", "unschedulable"): _unschedulable,
    **{("job", name): _ended for name in ("succeeded", "failed", "cancelled", "timed-out", "returned")},
}
