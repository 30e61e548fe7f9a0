"""How facts about advance reservations change what the scheduler believes."""

from muster.core import Fact
from muster.scheduler.core.state import Handler, State
from muster.schemas.facts.reservation import (
    Booked,
    ReservationState,
    ReservationWish,
    ReserveEndRequested,
    ReserveRequested,
)


def _reserve_forwarded(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, ReserveRequested)
    spec, principal = fact.payload.spec, fact.payload.principal
    _wish(state, ReservationWish(fact=fact.id, name=spec.name, spec=spec, principal=principal, trace=fact.trace))


def _end_forwarded(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, ReserveEndRequested)
    payload = fact.payload
    wish = ReservationWish(
        fact=fact.id, name=fact.subject_id, principal=payload.principal, reason=payload.reason, trace=fact.trace
    )
    _wish(state, wish)


def _wish(state: State, wish: ReservationWish) -> None:
    state.reservations.wishes[wish.fact] = wish


def _booked(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, Booked)
    state.reservations.answer(fact.causes)
    state.reservations.book(fact.payload, fact=fact.id)


def _refused(state: State, fact: Fact) -> None:
    state.reservations.answer(fact.causes)


def _ended(state: State, fact: Fact) -> None:
    state.reservations.answer(fact.causes)
    if not state.reservations.end(fact.subject_id):
        state.anomalies["end of no reservation"] += 1


def _state_recorded(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, ReservationState)
    state.reservations.load(fact.payload)


HANDLERS: dict[tuple[str, str], Handler] = {
    ("reservation", "reserve-forwarded"): _reserve_forwarded,
    ("reservation", "end-forwarded"): _end_forwarded,
    ("reservation", "booked"): _booked,
    ("reservation", "booking-refused"): _refused,
    ("reservation", "ended"): _ended,
    ("reservation", "state-recorded"): _state_recorded,
}
