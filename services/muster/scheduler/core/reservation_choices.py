"""Which GPUs an advance reservation gets that names none: those that are free by then, on as few nodes as can be."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from muster.core import Instant
from muster.placement import DEVICE_MILLI
from muster.placement import Slot as Place
from muster.scheduler.core.jobs import bound_ns
from muster.scheduler.core.reservations import Reservation, Window
from muster.scheduler.core.state import State
from muster.schemas.facts.reservation import ReservationSpec
from muster.schemas.job import Slot


class _Offer(NamedTuple):
    """Devices of a node that nobody else has reserved: free: those that are by the start; all_: and the others."""

    node: str
    free: tuple[int, ...]
    all_: tuple[int, ...]


def choose(
    state: State, spec: ReservationSpec, window: Window, now: Instant, *, others: Iterable[Reservation]
) -> tuple[Slot, ...] | int:
    """One slot per node, or how many GPUs there are if that is too few. others: what else is reserved.

    Nodes that can be used come before those that cannot now, those with the most GPUs that are free by then first.
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
    """Devices that others have reserved for a moment of this window, by node; None: all of the node."""
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
