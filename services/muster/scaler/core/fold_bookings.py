"""How facts about advance reservations change what the scaler believes: what they keep."""

from collections.abc import Callable

from muster.core import Fact
from muster.scaler.core.state import State
from muster.schemas.facts.reservation import Booked, ReservationState
from muster.schemas.registry import STATE_NAME


def _booked(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, Booked)
    state.bookings.book(fact.subject_id, fact.payload)


def _ended(state: State, fact: Fact) -> None:
    state.bookings.end(fact.subject_id)


def _state_recorded(state: State, fact: Fact) -> None:
    """One that was only asked for keeps nothing."""
    assert isinstance(fact.payload, ReservationState)
    stored = fact.payload
    if stored.spec is not None:
        state.bookings.book(fact.subject_id, Booked(spec=stored.spec, starts_at=stored.starts_at, slots=stored.slots))


HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    ("reservation", "booked"): _booked,
    ("reservation", "ended"): _ended,
    ("reservation", STATE_NAME): _state_recorded,
}
