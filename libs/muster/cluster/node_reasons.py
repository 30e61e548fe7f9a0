"""Why a node or one of its devices takes no new jobs now or later, for users. Pure."""

from collections.abc import Iterable, Iterator, Mapping

from muster.cluster.withholds import OpenDrains
from muster.schemas.facts.node import Cordon
from muster.schemas.views import NodeReason

CORDONED, DRAINED, WITHHELD, PLANNED, LOST, NOT_RELEASED = (
    "cordoned", "drained", "withheld", "planned", "lost", "not-released",
)  # fmt: skip
"""Values of `NodeReason.what`."""

REASONS_MAX = 64
"""Maximum number of reasons reported for one node."""


def node_reasons(
    *,
    cordon: Cordon | None,
    wishes: OpenDrains,
    devices: Mapping[str, OpenDrains],
    lost: bool,
    released: bool,
    is_held: bool,
) -> tuple[NodeReason, ...]:
    """Return all reasons against using the node or a device: present ones first, then planned ones.

    `devices` has the requests by UUID. `is_held`: whether jobs hold something on the node.
    """
    found = [*_now(cordon, lost=lost), *_wished(wishes, is_held=is_held)]
    for uuid, of_device in sorted(devices.items()):
        found += _wished(of_device, device=uuid)
    if not found and not released:
        found.append(NodeReason(what=NOT_RELEASED))
    found.sort(key=lambda reason: reason.what == PLANNED)
    return tuple(found[:REASONS_MAX])


def in_words(reasons: Iterable[NodeReason]) -> str:
    """Return the first present reason against the whole node as text; "" if there is none."""
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


def _wished(requests: OpenDrains, *, device: str = "", is_held: bool = False) -> Iterator[NodeReason]:
    for request in requests:
        is_planned = bool(request.from_at) and not request.answered
        yield NodeReason(
            what=PLANNED if is_planned else WITHHELD,
            by=request.by,
            reason=request.reason,
            request_id=request.request_id,
            device=device,
            running=request.running,
            since=request.asked_at,
            from_at=request.from_at,
            is_held=is_held and not request.answered,
        )
