"""Answers to requests for advance reservations, and how reservations repeat and end."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from muster.cluster.node_records import NodeTable
from muster.core import Draft, Instant
from muster.placement import DEVICE_MILLI
from muster.placement import Slot as Place
from muster.quota.queues import Refusal
from muster.scheduler.core.requeue import DRAFTS_MAX, Requeue
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.jobs import JobBook, bound_ns
from muster.scheduler.core.stores.reservations import Reservation, Window, window_of
from muster.schemas.facts.reservation import (
    Booked,
    BookingEnded,
    BookingRefused,
    PendingReservation,
    Repeat,
    ReservationSpec,
)
from muster.schemas.job import Slot

BOOKED_MAX = 256
"""Maximum number of reservations; each is a booking that placements may have to open."""


class ReservationChanges:
    """Answers requests, and repeats and ends reservations. Its own state only saves work."""

    def __init__(self, state: State, requeue: Requeue) -> None:
        self._state = state
        self._requeue = requeue
        self._seen = (-1, -1)
        self._next: Instant | None = None

    def make(self, now: Instant) -> list[Draft]:
        """Return `booked`, `booking-refused` and `ended`, each checked against those before it."""
        state, reservations = self._state, self._state.reservations
        if not reservations.wishes and not reservations.booked:
            return []
        sofar, drafts = dict(reservations.booked), list[Draft]()
        for request in tuple(reservations.wishes.values())[:DRAFTS_MAX]:
            drafts.append(_answer(state, request, now, sofar))
        seen = (reservations.changes, state.grants.changes)
        is_calm = seen == self._seen and (self._next is None or now < self._next)
        for known in tuple(reservations.booked.values()):
            if (not is_calm or known.spec.job_id is not None) and sofar.get(known.spec.name) is known:
                drafts += _go_on(state, known, now, sofar)
        if not is_calm:
            moments = [moment for known in reservations.booked.values() for moment in (known.starts_at, known.ends_at)]
            self._next = min((moment for moment in moments if moment > now), default=None)
        self._seen = seen if not drafts else (-1, -1)  # drafts are repeated until they are folded
        if self._next is not None:
            self._requeue.wait_until(self._next)
        return drafts


def refusal(state: State, spec: ReservationSpec, now: Instant) -> Refusal | None:
    """Return why this reservation cannot be booked; None if it can."""
    found = _book(state, spec, now, state.reservations.booked)
    return found if isinstance(found, Refusal) else None


def _answer(state: State, request: PendingReservation, now: Instant, sofar: dict[str, Reservation]) -> Draft:
    if request.spec is None:
        if sofar.pop(request.name, None) is not None:
            return _draft(request, "ended", BookingEnded(reason=request.reason or "ended on request"))
        return _draft(
            request, "booking-refused", BookingRefused(field="name", reason=f"nothing is kept as {request.name}")
        )
    found = _book(state, request.spec, now, sofar)
    if isinstance(found, Refusal):
        return _draft(request, "booking-refused", BookingRefused(field=found.field, reason=found.reason))
    sofar[request.name] = found
    return _draft(request, "booked", Booked(spec=found.spec, starts_at=found.starts_at, slots=found.slots))


def _draft(request: PendingReservation, name: str, payload: Booked | BookingEnded | BookingRefused) -> Draft:
    return Draft("reservation", request.name, name, payload, (request.fact,), request.trace)


def _book(state: State, spec: ReservationSpec, now: Instant, sofar: dict[str, Reservation]) -> Reservation | Refusal:
    """Return the reservation given those in `sofar`; or the reason for a refusal."""
    if len(sofar) >= BOOKED_MAX and spec.name not in sofar:
        return Refusal("name", f"there are {BOOKED_MAX} reservations already: end one of them first")
    window = window_of(spec)
    if spec.repeat is Repeat.ONCE and window.starts_at + window.duration <= now:
        return Refusal("starts_at", "it would be over already: begin later, or repeat it weekly")
    if spec.queue is not None and spec.queue not in state.queues.queues:
        return Refusal("queue", f"there is no queue {spec.queue}")
    if spec.job_id is not None and _is_over(state.jobs, spec.job_id):
        return Refusal("job_id", f"there is no job {spec.job_id} that has yet to end")
    begins = Window(window.begins(now), window.duration, window.weekly)
    others = [other for name, other in sofar.items() if name != spec.name]
    slots: tuple[Slot, ...] = ()
    if spec.nodes:
        wrong = _wrong_nodes(state.nodes, spec, begins, others)
        if wrong is not None:
            return wrong
    else:
        chosen = choose(state, spec, begins, now, others=others)
        if isinstance(chosen, int):
            kind = f" {spec.gpu_model}" if spec.gpu_model else ""
            return Refusal("gpus", f"{spec.gpus} GPUs asked, {chosen}{kind} are there and not reserved for others then")
        slots = chosen
    return Reservation(spec, Instant(begins.starts_at), slots)


def _wrong_nodes(nodes: NodeTable, spec: ReservationSpec, window: Window, others: list[Reservation]) -> Refusal | None:
    for name in spec.nodes:
        node = nodes.get(name)
        if node is None or node.description is None:
            return Refusal("nodes", f"there is no node {name}")
    for other in others:
        shared = set(other.nodes).intersection(spec.nodes)
        if shared and other.window.meets(window):
            return Refusal("nodes", f"{min(shared)} is kept for reservation {other.spec.name} then")
    return None


def _is_over(jobs: JobBook, job_id: str) -> bool:
    record = jobs.records.get(job_id)
    return record is None or record.phase.is_terminal


def _go_on(state: State, known: Reservation, now: Instant, sofar: dict[str, Reservation]) -> list[Draft]:
    """Return the facts that follow when the reservation's time, its job or its GPUs are gone."""
    spec, causes = known.spec, (known.last_fact,) if known.last_fact else ()
    if spec.job_id is not None and _is_over(state.jobs, spec.job_id):
        return [_ended(sofar, spec, "the job that it was for is over", causes)]
    if now >= known.ends_at:
        if spec.repeat is Repeat.ONCE:
            return [_ended(sofar, spec, "its time is over", causes)]
    elif all(slot.node in state.capacity.models for slot in known.slots):
        return []
    found = _book(state, spec, now, sofar)
    if isinstance(found, Refusal):
        begins = Instant(window_of(spec).begins(now))
        if begins == known.starts_at:
            return []  # the remaining capacity stays reserved
        found = Reservation(spec, begins, known.slots)
    sofar[spec.name] = found
    payload = Booked(spec=spec, starts_at=found.starts_at, slots=found.slots)
    return [Draft("reservation", spec.name, "booked", payload, causes)]


def _ended(sofar: dict[str, Reservation], spec: ReservationSpec, reason: str, causes: tuple[str, ...]) -> Draft:
    del sofar[spec.name]
    return Draft("reservation", spec.name, "ended", BookingEnded(reason=reason), causes)


class _Offer(NamedTuple):
    """Devices of a node that are not reserved by others."""

    node: str
    free: tuple[int, ...]
    """Devices that are idle at the start."""
    all_: tuple[int, ...]
    """All devices, including `free`."""


def choose(
    state: State, spec: ReservationSpec, window: Window, now: Instant, *, others: Iterable[Reservation]
) -> tuple[Slot, ...] | int:
    """Return one slot per node, or the number of available GPUs if they are too few. `others`: other reservations.

    Usable nodes come before the others, nodes with the most GPUs that are free at the start first.
    """
    taken = _taken(window, others)
    offers = [offer for offer in _offers(state, spec, window.starts_at, now, taken) if offer.all_]
    offers.sort(key=lambda offer: (not state.nodes[offer.node].usable, -len(offer.free), offer.node))
    total = sum(len(offer.all_) for offer in offers)
    if total < spec.gpus:
        return total
    chosen: dict[str, tuple[int, ...]] = {}
    left = spec.gpus
    for offer in offers:
        chosen[offer.node] = offer.free[:left]
        left -= len(chosen[offer.node])
    for offer in offers:
        more = [index for index in offer.all_ if index not in chosen[offer.node]][:left]
        chosen[offer.node] += tuple(more)
        left -= len(more)
    return tuple(
        state.ledger.slot_of(Place(0, replica, name, tuple(sorted(devices)), DEVICE_MILLI))
        for replica, (name, devices) in enumerate((name, devices) for name, devices in chosen.items() if devices)
    )


def _taken(window: Window, others: Iterable[Reservation]) -> dict[str, set[int] | None]:
    """Return the devices that others have reserved within this window, by node; None: the whole node."""
    taken: dict[str, set[int] | None] = {}
    for other in others:
        if not other.window.meets(window):
            continue
        taken.update(dict.fromkeys(other.spec.nodes))
        for slot in other.slots:
            devices = taken.setdefault(slot.node, set())
            if devices is not None:
                devices.update(slot.kept_at)
    return taken


def _offers(
    state: State, spec: ReservationSpec, starts_at: int, now: Instant, taken: Mapping[str, set[int] | None]
) -> Iterable[_Offer]:
    for name, node in state.nodes.items():
        shape = node.description
        if shape is None or (spec.gpu_model and shape.gpu_model != spec.gpu_model):
            continue
        reserved = taken.get(name, set())
        if reserved is None:
            continue
        late = {
            index
            for job_id, holds in node.jobs.items()
            if bound_ns(state.jobs.records[job_id], now) > starts_at
            for hold in holds
            for index in hold.slot.devices
        }
        built = state.fleet.ledger.nodes.get(name)
        broken = built.broken if built is not None else set()
        usable = [index for index in shape.present if index not in reserved and index not in broken]
        yield _Offer(name, tuple(index for index in usable if index not in late), tuple(usable))
