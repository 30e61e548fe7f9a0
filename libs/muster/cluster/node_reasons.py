"""Why a node, or a device of it, takes nothing new now or later, as people are told. Pure."""

from collections.abc import Iterable, Iterator, Mapping

from muster.cluster.withholds import Wishes
from muster.schemas.facts.node import Cordon
from muster.schemas.views import NodeReason

CORDONED, DRAINED, WITHHELD, PLANNED, LOST, NOT_RELEASED = (
    "cordoned", "drained", "withheld", "planned", "lost", "not-released",
)  # fmt: skip
"""What a reason says, see `NodeReason`."""

REASONS_MAX = 64
"""Reasons of one node that are told."""


def node_reasons(
    *,
    cordon: Cordon | None,
    wishes: Wishes,
    devices: Mapping[str, Wishes],
    lost: bool,
    released: bool,
    is_held: bool,
) -> tuple[NodeReason, ...]:
    """All that speaks against using the node or a device: what is so now first, then what is planned.

    devices: wishes by uuid, of those that have any. is_held: whether jobs hold something on the node.
    """
    found = [*_now(cordon, lost=lost), *_wished(wishes, is_held=is_held)]
    for uuid, of_device in sorted(devices.items()):
        found += _wished(of_device, device=uuid)
    if not found and not released:
        found.append(NodeReason(what=NOT_RELEASED))
    found.sort(key=lambda reason: reason.what == PLANNED)
    return tuple(found[:REASONS_MAX])


def in_words(reasons: Iterable[NodeReason]) -> str:
    """The first reason against the whole node that holds now; "" if there is none."""
    for reason in reasons:
        if not reason.device and reason.what != PLANNED:
            by = f" for {reason.by}" if reason.what == WITHHELD and reason.by else ""
            by = f" by {reason.by}" if reason.what in (CORDONED, DRAINED) else by
            why = reason.reason or reason.request_id
            return f"{reason.what.replace('-', ' ')}{by}{f': {why}' if why else ''}"
    return ""


def _now(cordon: Cordon | None, *, lost: bool) -> Iterator[NodeReason]:
    if lost:
        yield NodeReason(what=LOST)
    if cordon is not None:
        what = DRAINED if cordon.draining else CORDONED
        yield NodeReason(what=what, by=cordon.principal, reason=cordon.reason, since=cordon.since)


def _wished(wishes: Wishes, *, device: str = "", is_held: bool = False) -> Iterator[NodeReason]:
    for wish in wishes:
        is_planned = bool(wish.from_at) and not wish.answered
        yield NodeReason(
            what=PLANNED if is_planned else WITHHELD,
            by=wish.by,
            reason=wish.reason,
            request_id=wish.request_id,
            device=device,
            running=wish.running,
            since=wish.asked_at,
            from_at=wish.from_at,
            is_held=is_held and not wish.answered,
        )
