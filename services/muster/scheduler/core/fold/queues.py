"""How facts about queues change what the scheduler believes."""

from muster.core import Fact
from muster.scheduler.core.fold.updates import Handler, settle_arrival
from muster.scheduler.core.state import State
from muster.schemas.facts.queue import QueueChanged, QueueChangeRequested, QueueState, QueueWish
from muster.schemas.facts.reservation import (
    Booked,
    ReservationState,
    ReservationWish,
    ReserveEndRequested,
    ReserveRequested,
)


def set_queue(state: State, queue: QueueState, *, at: int = 0) -> None:
    """A queue is new or different: its limits hold from now on, for those who wait too. at 0: a checkpoint says so."""
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
    if is_quiet and awaited is not None:  # nobody else asked for the queue of this user
        arrived = [job_id for job_id in awaited if job_id in state.arrivals.jobs]
    else:  # those of a queue that came, closed or opened; limits are judged by the cycle
        arrived = list(state.arrivals.jobs)
    for job_id in arrived:
        settle_arrival(state, state.jobs.records[job_id])
    state.progress.generation += 1


def _change_forwarded(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, QueueChangeRequested)
    wish = fact.payload
    state.queues.wishes[fact.id] = QueueWish(fact=fact.id, spec=wish.spec, principal=wish.principal, trace=fact.trace)


def _changed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, QueueChanged)
    spec = fact.payload.spec
    if not _answer_wish(state, fact) and not _is_of_a_user(state, fact):
        state.anomalies["queue change nobody asked for"] += 1
    set_queue(state, QueueState(spec=spec, changed_at=fact.time), at=fact.time)


def _change_refused(state: State, fact: Fact) -> None:
    if not _answer_wish(state, fact):
        state.anomalies["queue change nobody asked for"] += 1


def _answer_wish(state: State, fact: Fact) -> bool:
    answered = [state.queues.wishes.pop(cause) for cause in fact.causes if cause in state.queues.wishes]
    return bool(answered)


def _is_of_a_user(state: State, fact: Fact) -> bool:
    """Whether it was made for the first job of a user, whose `routed` is its cause."""
    return fact.subject_id in state.arrivals.awaited


def _reserve_forwarded(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, ReserveRequested)
    spec, principal = fact.payload.spec, fact.payload.principal
    _ask(state, ReservationWish(fact=fact.id, name=spec.name, spec=spec, principal=principal, trace=fact.trace))


def _end_forwarded(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, ReserveEndRequested)
    payload = fact.payload
    wish = ReservationWish(
        fact=fact.id, name=fact.subject_id, principal=payload.principal, reason=payload.reason, trace=fact.trace
    )
    _ask(state, wish)


def _ask(state: State, wish: ReservationWish) -> None:
    state.reservations.wishes[wish.fact] = wish


def _booked(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, Booked)
    state.reservations.answer(fact.causes)
    state.reservations.book(fact.payload, fact=fact.id)


def _booking_refused(state: State, fact: Fact) -> None:
    state.reservations.answer(fact.causes)


def _reservation_ended(state: State, fact: Fact) -> None:
    state.reservations.answer(fact.causes)
    if not state.reservations.end(fact.subject_id):
        state.anomalies["end of no reservation"] += 1


def _reservation_recorded(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, ReservationState)
    state.reservations.load(fact.payload)


HANDLERS: dict[tuple[str, str], Handler] = {
    ("queue", "change-forwarded"): _change_forwarded,
    ("queue", "changed"): _changed,
    ("queue", "change-refused"): _change_refused,
    ("reservation", "reserve-forwarded"): _reserve_forwarded,
    ("reservation", "end-forwarded"): _end_forwarded,
    ("reservation", "booked"): _booked,
    ("reservation", "booking-refused"): _booking_refused,
    ("reservation", "ended"): _reservation_ended,
    ("reservation", "state-recorded"): _reservation_recorded,
}
