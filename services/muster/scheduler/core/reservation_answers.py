"""Answers to questions about advance reservations, from the core's state alone."""

from muster.core import Core, Instant
from muster.scheduler.core.bookings import RESERVATION
from muster.scheduler.core.core import SchedulerCore
from muster.scheduler.core.reservation_changes import refusal
from muster.schemas.base import Wire
from muster.schemas.queries import AskReservation, QueueCheckAnswer, ReservationsAnswer
from muster.schemas.views import ReservationView


def answer_reservations(core: Core, _ask: Wire, now: Instant) -> ReservationsAnswer:
    """`reservations`: all that were booked, by name. next_starts_at: of this time, while it lasts."""
    assert isinstance(core, SchedulerCore)
    state = core.state
    state.proposals.settle()
    views = []
    for name, reservation in sorted(state.reservations.booked.items()):
        booking = state.bookings.all.get(RESERVATION + name)
        views.append(
            ReservationView(
                name=name,
                cluster=state.cluster,
                spec=reservation.spec,
                active=reservation.starts_at <= now < reservation.ends_at,
                next_starts_at=reservation.starts_at,
                held_gpu_milli=booking.kept_milli if booking is not None else 0,
            )
        )
    return ReservationsAnswer(reservations=tuple(views))


def answer_reservation_check(core: Core, ask: Wire, now: Instant) -> QueueCheckAnswer:
    """`reservation-check`: may this be kept? field: empty if it may."""
    assert isinstance(core, SchedulerCore)
    assert isinstance(ask, AskReservation)
    core.state.proposals.settle()
    found = refusal(core.state, ask.spec, now)
    return QueueCheckAnswer() if found is None else QueueCheckAnswer(field=found.field, reason=found.reason)
