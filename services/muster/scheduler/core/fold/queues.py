"""Folds of facts about queues and reservations."""

from muster.core import Fact
from muster.core.folding import Folds
from muster.scheduler.core.fold.updates import settle_arrival
from muster.scheduler.core.state import State
from muster.schemas.facts.queue import (
    PendingQueueChange,
    QueueChanged,
    QueueChangeRefused,
    QueueChangeRequested,
    QueueState,
)
from muster.schemas.facts.reservation import (
    Booked,
    BookingEnded,
    BookingRefused,
    PendingReservation,
    ReservationState,
    ReserveEndRequested,
    ReserveRequested,
)
from muster.schemas.registry import STATE_NAME

FOLDS = Folds[State, None]()


def set_queue(state: State, queue: QueueState, *, at: int = 0) -> None:
    """Set a queue; its limits apply from now on, to waiting jobs too. `at` is 0 for a queue of a checkpoint."""
    name = queue.spec.name
    if at:
        is_quiet = state.queues.set(queue.spec, changed_at=queue.changed_at, at=at)
    else:
        state.queues.load(queue)
        is_quiet = False
    awaited = state.arrivals.awaited.pop(name, None)
    if is_quiet:
        state.pending.reopen_queue(name)
    else:
        state.pending.reopen()
    if is_quiet and awaited is not None:  # only jobs of this user wait for the queue
        arrived = [job_id for job_id in awaited if job_id in state.arrivals.jobs]
    else:  # the queue was created, closed or opened; limits are checked by the cycle
        arrived = list(state.arrivals.jobs)
    for job_id in arrived:
        settle_arrival(state, state.jobs.records[job_id])
    state.progress.generation += 1


@FOLDS.on("queue", "change-forwarded", QueueChangeRequested)
def _change_forwarded(state: State, fact: Fact, request: QueueChangeRequested) -> None:
    state.queues.wishes[fact.id] = PendingQueueChange(
        fact=fact.id, spec=request.spec, principal=request.principal, trace=fact.trace
    )


@FOLDS.on("queue", "changed", QueueChanged)
def _changed(state: State, fact: Fact, changed: QueueChanged) -> None:
    spec = changed.spec
    if not _answer_request(state, fact) and not _is_of_a_user(state, fact):
        state.anomalies["queue change nobody asked for"] += 1
    set_queue(state, QueueState(spec=spec, changed_at=fact.time), at=fact.time)


@FOLDS.on("queue", "change-refused", QueueChangeRefused)
def _change_refused(state: State, fact: Fact, _: QueueChangeRefused) -> None:
    if not _answer_request(state, fact):
        state.anomalies["queue change nobody asked for"] += 1


def _answer_request(state: State, fact: Fact) -> bool:
    answered = [state.queues.wishes.pop(cause) for cause in fact.causes if cause in state.queues.wishes]
    return bool(answered)


def _is_of_a_user(state: State, fact: Fact) -> bool:
    """Return whether the queue was made for the first job of a user, whose `routed` is its cause."""
    return fact.subject_id in state.arrivals.awaited


@FOLDS.on("reservation", "reserve-forwarded", ReserveRequested)
def _reserve_forwarded(state: State, fact: Fact, asked: ReserveRequested) -> None:
    spec, principal = asked.spec, asked.principal
    _ask(state, PendingReservation(fact=fact.id, name=spec.name, spec=spec, principal=principal, trace=fact.trace))


@FOLDS.on("reservation", "end-forwarded", ReserveEndRequested)
def _end_forwarded(state: State, fact: Fact, asked: ReserveEndRequested) -> None:
    request = PendingReservation(
        fact=fact.id, name=fact.subject_id, principal=asked.principal, reason=asked.reason, trace=fact.trace
    )
    _ask(state, request)


def _ask(state: State, request: PendingReservation) -> None:
    state.reservations.wishes[request.fact] = request


@FOLDS.on("reservation", "booked", Booked)
def _booked(state: State, fact: Fact, booked: Booked) -> None:
    state.reservations.answer(fact.causes)
    state.reservations.book(booked, fact=fact.id)


@FOLDS.on("reservation", "booking-refused", BookingRefused)
def _booking_refused(state: State, fact: Fact, _: BookingRefused) -> None:
    state.reservations.answer(fact.causes)


@FOLDS.on("reservation", "ended", BookingEnded)
def _reservation_ended(state: State, fact: Fact, _: BookingEnded) -> None:
    state.reservations.answer(fact.causes)
    if not state.reservations.end(fact.subject_id):
        state.anomalies["end of no reservation"] += 1


@FOLDS.on("reservation", STATE_NAME, ReservationState)
def _reservation_recorded(state: State, _fact: Fact, stored: ReservationState) -> None:
    state.reservations.load(stored)
