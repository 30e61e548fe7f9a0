"""Advance reservations as the scheduler booked them: what they keep is idle for a reason, and stays.

A window that is far away keeps nothing here: what goes until then comes back in time, and the scheduler books other
GPUs where those that it chose are gone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from muster.core import Fact, Instant, after
from muster.core.folding import Folds
from muster.schemas.facts.reservation import Booked, BookingEnded, ReservationState
from muster.schemas.registry import STATE_NAME


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

    FOLDS = Folds["Bookings", None]()

    def __init__(self) -> None:
        self.by_name: dict[str, Booking] = {}
        self._on: dict[str, dict[str, Booking]] = {}

    @FOLDS.on("reservation", "booked", Booked)
    def _booked(self, fact: Fact, booked: Booked) -> None:
        """Keep this, instead of what the reservation kept before."""
        name = fact.subject_id
        self._end(name)
        starts_at = Instant(booked.starts_at or booked.spec.starts_at)
        devices = {slot.node: frozenset(slot.kept_at) for slot in booked.slots}
        ends_at = after(starts_at, booked.spec.duration_s)
        booking = Booking(name, frozenset(booked.spec.nodes), devices, starts_at, ends_at)
        self.by_name[name] = booking
        for node in (*booking.nodes, *booking.devices):
            self._on.setdefault(node, {})[name] = booking

    @FOLDS.on("reservation", STATE_NAME, ReservationState)
    def _restored(self, fact: Fact, stored: ReservationState) -> None:
        if stored.spec is not None:  # else it was only asked for, and keeps nothing
            self._booked(fact, Booked(spec=stored.spec, starts_at=stored.starts_at, slots=stored.slots))

    @FOLDS.on("reservation", "ended", BookingEnded)
    def _ended(self, fact: Fact, _: BookingEnded) -> None:
        self._end(fact.subject_id)

    def _end(self, name: str) -> None:
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
