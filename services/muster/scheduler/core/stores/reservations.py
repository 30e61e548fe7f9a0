"""Advance reservations as folded, and the requests that wait for an answer."""

from dataclasses import dataclass

from muster.core import NS_PER_S, Instant
from muster.placement import DEVICE_MILLI
from muster.scheduler.core.stores.bookings import RESERVATION, Booking, Bookings, Want
from muster.schemas.facts.reservation import Booked, PendingReservation, Repeat, ReservationSpec, ReservationState
from muster.schemas.job import Slot

WEEK_NS = 7 * 86_400 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Window:
    """The time of a reservation, once or every week, in nanoseconds."""

    starts_at: int
    duration: int
    weekly: bool

    def meets(self, other: "Window") -> bool:
        """Return whether both windows ever overlap."""
        first, later = (self, other) if self.starts_at <= other.starts_at else (other, self)
        ahead = later.starts_at - first.starts_at
        if ahead < first.duration:
            return True
        if not first.weekly:
            return False
        into = ahead % WEEK_NS
        return into < first.duration or WEEK_NS - into < later.duration

    def begins(self, now: int) -> int:
        """Return the start of the first occurrence that is not over yet."""
        behind = now - self.starts_at - self.duration
        if not self.weekly or behind < 0:
            return self.starts_at
        return self.starts_at + (behind // WEEK_NS + 1) * WEEK_NS


def window_of(spec: ReservationSpec) -> Window:
    """Return the window of all occurrences of a reservation."""
    return Window(spec.starts_at, round(spec.duration_s * NS_PER_S), spec.repeat is Repeat.WEEKLY)


@dataclass(frozen=True, slots=True)
class Reservation:
    """A booked reservation."""

    spec: ReservationSpec
    starts_at: Instant
    """The start of the present or next occurrence."""
    slots: tuple[Slot, ...] = ()
    """The chosen GPUs, if the spec names no nodes."""
    last_fact: str = ""

    @property
    def ends_at(self) -> Instant:
        """The end of the present or next occurrence."""
        return Instant(self.starts_at + window_of(self.spec).duration)

    @property
    def window(self) -> Window:
        """The window of this occurrence and those after it."""
        window = window_of(self.spec)
        return Window(self.starts_at, window.duration, window.weekly)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes on which capacity is kept."""
        return self.spec.nodes or tuple(slot.node for slot in self.slots)

    def booking(self) -> Booking:
        """Return the booking of this occurrence."""
        spec = self.spec
        wants = {name: Want(whole=True) for name in spec.nodes}
        for slot in self.slots:
            devices = tuple((index, DEVICE_MILLI) for index in sorted(slot.kept_at))
            wants[slot.node] = Want(devices=devices, with_rest=True)
        return Booking(
            RESERVATION + spec.name,
            self.starts_at,
            wants,
            ends_at=self.ends_at,
            job_id=spec.job_id or "",
            queue=spec.queue or "",
            of=self,
        )


class Reservations:
    """All advance reservations."""

    def __init__(self, bookings: Bookings) -> None:
        self.booked: dict[str, Reservation] = {}
        """By name."""
        self.wishes: dict[str, PendingReservation] = {}
        """Requests by the id of their fact."""
        self.changes = 0
        """Grows when a reservation is booked or ended."""
        self._bookings = bookings

    def book(self, payload: Booked, *, fact: str) -> None:
        """Book the reservation, instead of one of the same name."""
        spec = payload.spec
        starts_at = Instant(payload.starts_at or spec.starts_at)
        self._set(Reservation(spec, starts_at, payload.slots, fact))

    def end(self, name: str) -> bool:
        """End the reservation, and return whether it was booked."""
        self._bookings.unbook(RESERVATION + name)
        self.changes += 1
        return self.booked.pop(name, None) is not None

    def answer(self, causes: tuple[str, ...]) -> None:
        """Remove the requests that these facts made: they are answered."""
        for cause in causes:
            self.wishes.pop(cause, None)

    def load(self, state: ReservationState) -> None:
        """Load the reservation from a checkpoint."""
        self.wishes.update({request.fact: request for request in state.wishes})
        if state.spec is not None:
            starts_at = Instant(state.starts_at or state.spec.starts_at)
            self._set(Reservation(state.spec, starts_at, state.slots, state.last_fact))

    def states(self) -> dict[str, ReservationState]:
        """Return the state facts, by name."""
        names = dict.fromkeys([*self.booked, *(request.name for request in self.wishes.values())])
        return {name: self._state(name) for name in names}

    def _state(self, name: str) -> ReservationState:
        requests = tuple(request for request in self.wishes.values() if request.name == name)
        known = self.booked.get(name)
        if known is None:
            return ReservationState(wishes=requests)
        return ReservationState(
            spec=known.spec,
            wishes=requests,
            starts_at=known.starts_at,
            slots=known.slots,
            last_fact=known.last_fact,
        )

    def _set(self, reservation: Reservation) -> None:
        self.booked[reservation.spec.name] = reservation
        self.changes += 1
        self._bookings.book(reservation.booking())
