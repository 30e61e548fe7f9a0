"""Advance reservations as folded: what is kept, from when on, for whom, and the wishes that wait for an answer."""

from dataclasses import dataclass

from muster.core import NS_PER_S, Instant
from muster.placement import DEVICE_MILLI
from muster.scheduler.core.stores.bookings import RESERVATION, Booking, Bookings, Want
from muster.schemas.facts.reservation import Booked, Repeat, ReservationSpec, ReservationState, ReservationWish
from muster.schemas.job import Slot

WEEK_NS = 7 * 86_400 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Window:
    """When something is kept: once, or every week from then on. Nanoseconds."""

    starts_at: int
    duration: int
    weekly: bool

    def meets(self, other: "Window") -> bool:
        """Whether both are kept at the same moment, some day."""
        first, later = (self, other) if self.starts_at <= other.starts_at else (other, self)
        ahead = later.starts_at - first.starts_at
        if ahead < first.duration:
            return True
        if not first.weekly:
            return False
        into = ahead % WEEK_NS
        return into < first.duration or WEEK_NS - into < later.duration

    def begins(self, now: int) -> int:
        """The start of the first time that is not over yet."""
        behind = now - self.starts_at - self.duration
        if not self.weekly or behind < 0:
            return self.starts_at
        return self.starts_at + (behind // WEEK_NS + 1) * WEEK_NS


def window_of(spec: ReservationSpec) -> Window:
    """All times of a reservation."""
    return Window(spec.starts_at, round(spec.duration_s * NS_PER_S), spec.repeat is Repeat.WEEKLY)


@dataclass(frozen=True, slots=True)
class Reservation:
    """One that is kept. starts_at: this time. slots: GPUs that were chosen where no nodes are named."""

    spec: ReservationSpec
    starts_at: Instant
    slots: tuple[Slot, ...] = ()
    last_fact: str = ""

    @property
    def ends_at(self) -> Instant:
        """The end of this time."""
        return Instant(self.starts_at + window_of(self.spec).duration)

    @property
    def window(self) -> Window:
        """This time and those after it."""
        window = window_of(self.spec)
        return Window(self.starts_at, window.duration, window.weekly)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Where something is kept."""
        return self.spec.nodes or tuple(slot.node for slot in self.slots)

    def booking(self) -> Booking:
        """What that means for the bookings."""
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
    """All of them. booked: by name. wishes: by the fact that asked. changes: grows when one is booked or ended."""

    def __init__(self, bookings: Bookings) -> None:
        self.booked: dict[str, Reservation] = {}
        self.wishes: dict[str, ReservationWish] = {}
        self.changes = 0
        self._bookings = bookings

    def book(self, payload: Booked, *, fact: str) -> None:
        """It is kept from here on, instead of one of the same name."""
        spec = payload.spec
        starts_at = Instant(payload.starts_at or spec.starts_at)
        self._set(Reservation(spec, starts_at, payload.slots, fact))

    def end(self, name: str) -> bool:
        """It is kept no more. False if it was not."""
        self._bookings.unbook(RESERVATION + name)
        self.changes += 1
        return self.booked.pop(name, None) is not None

    def answer(self, causes: tuple[str, ...]) -> None:
        """The wishes that these facts were are answered."""
        for cause in causes:
            self.wishes.pop(cause, None)

    def load(self, state: ReservationState) -> None:
        """As a checkpoint says."""
        self.wishes.update({wish.fact: wish for wish in state.wishes})
        if state.spec is not None:
            starts_at = Instant(state.starts_at or state.spec.starts_at)
            self._set(Reservation(state.spec, starts_at, state.slots, state.last_fact))

    def states(self) -> dict[str, ReservationState]:
        """By name, as state facts."""
        names = dict.fromkeys([*self.booked, *(wish.name for wish in self.wishes.values())])
        return {name: self._state(name) for name in names}

    def _state(self, name: str) -> ReservationState:
        wishes = tuple(wish for wish in self.wishes.values() if wish.name == name)
        known = self.booked.get(name)
        if known is None:
            return ReservationState(wishes=wishes)
        return ReservationState(
            spec=known.spec,
            wishes=wishes,
            starts_at=known.starts_at,
            slots=known.slots,
            last_fact=known.last_fact,
        )

    def _set(self, reservation: Reservation) -> None:
        self.booked[reservation.spec.name] = reservation
        self.changes += 1
        self._bookings.book(reservation.booking())
