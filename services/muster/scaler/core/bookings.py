"""Advance reservations as the scheduler booked them: what they keep is idle for a reason, and stays.

A window that is far away keeps nothing here: what goes until then comes back in time, and the scheduler books other
GPUs where those that it chose are gone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from muster.core import Fact, Instant, after
from muster.schemas.facts.reservation import Booked, ReservationState
from muster.schemas.registry import STATE_NAME

BOOKING_FACTS = ("booked", "ended", STATE_NAME)
"""Names of the facts of a reservation that change what is kept."""


@dataclass(frozen=True, slots=True)
class Booking:
    """One window. nodes: kept whole; devices: by node, the indexes of those that are kept."""

    name: str
    nodes: frozenset[str]
    devices: dict[str, frozenset[int]]
    starts_at: Instant
    ends_at: Instant

    def is_near(self, now: Instant, lead_s: float) -> bool:
        """Whether it has begun or begins within so many seconds, and is not over."""
        return now < self.ends_at and self.starts_at <= after(now, lead_s)


class Bookings:
    """All windows that were booked and not ended, by name and by node."""

    def __init__(self) -> None:
        self.by_name: dict[str, Booking] = {}
        self._on: dict[str, dict[str, Booking]] = {}

    def apply(self, fact: Fact) -> None:
        """Fold one of `BOOKING_FACTS`."""
        match fact.payload:
            case Booked() as booked:
                self.book(fact.subject_id, booked)
            case ReservationState(spec=spec, starts_at=starts_at, slots=slots):
                if spec is not None:  # else it was only asked for, and keeps nothing
                    self.book(fact.subject_id, Booked(spec=spec, starts_at=starts_at, slots=slots))
            case _:
                self.end(fact.subject_id)

    def book(self, name: str, booked: Booked) -> None:
        """This is kept; instead of what the reservation kept before."""
        self.end(name)
        starts_at = Instant(booked.starts_at or booked.spec.starts_at)
        devices = {slot.node: frozenset(slot.kept_at) for slot in booked.slots}
        ends_at = after(starts_at, booked.spec.duration_s)
        booking = Booking(name, frozenset(booked.spec.nodes), devices, starts_at, ends_at)
        self.by_name[name] = booking
        for node in (*booking.nodes, *booking.devices):
            self._on.setdefault(node, {})[name] = booking

    def end(self, name: str) -> None:
        """The reservation keeps nothing any more."""
        booking = self.by_name.pop(name, None)
        for node in (*booking.nodes, *booking.devices) if booking is not None else ():
            self._on[node].pop(name, None)
            if not self._on[node]:
                del self._on[node]

    def keeping(self, node: str, now: Instant, lead_s: float) -> str:
        """The reservation that keeps the node, or something on it; "" if none does."""
        return next((booking.name for booking in self._near(node, now, lead_s)), "")

    def keeps_device(self, node: str, index: int, now: Instant, lead_s: float) -> bool:
        """Whether a reservation keeps this device."""
        near = self._near(node, now, lead_s)
        return any(node in booking.nodes or index in booking.devices.get(node, ()) for booking in near)

    def _near(self, node: str, now: Instant, lead_s: float) -> Iterator[Booking]:
        return (booking for booking in self._on.get(node, {}).values() if booking.is_near(now, lead_s))
