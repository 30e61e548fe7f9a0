"""Rows of devices, requests and fabrics, from the views that programs get. Pure; `now_ns` is given."""

from collections import Counter
from collections.abc import Iterable, Sequence

from muster.cli import moments
from muster.schemas.devices import (
    AttachmentPhase,
    BreakerState,
    ComposabilitySpec,
    DeviceView,
    FabricView,
    PoolModel,
    RequestView,
)

DEVICES = ("DEVICE", "NODE", "MODEL", "FABRIC", "STATE", "SINCE", "REQUEST", "HELD_BY")
DEVICES_WIDE = (*DEVICES, "TYPE", "ATTACHMENT", "FABRIC_ID", "ORIGIN", "TRY", "CLUSTER", "ERROR")
REQUESTS = ("REQUEST", "STATE", "WHAT", "WHERE", "DEVICES", "BY", "SINCE", "ERROR")
REQUESTS_WIDE = (*REQUESTS, "ORIGIN", "JOBS", "FORCE", "CLUSTER")
FABRICS = ("FABRIC", "DRIVER", "BREAKER", "POOL", "ON_NODES", "IN_FLIGHT", "ORPHANS", "SEEN", "ERROR")
NUMBERS = ("IN_FLIGHT", "ORPHANS")


def device_rows(devices: Iterable[DeviceView], *, now_ns: int, wide: bool = False) -> Iterable[tuple[str, ...]]:
    """One device a row; one that is not known yet goes by its attachment."""
    for one in devices:
        row = (
            one.device_uuid or f"({one.id})", one.node, one.model, one.fabric, one.phase.value,
            _since(one.since, now_ns=now_ns), one.request or f"({one.origin.value})", ",".join(one.holders),
        )  # fmt: skip
        more = (
            one.type, one.id, one.device_id, one.origin.value, str(one.attempt) if one.attempt else "", one.cluster,
            one.error,
        )  # fmt: skip
        yield (*row, *more) if wide else row


def request_rows(requests: Iterable[RequestView], *, now_ns: int, wide: bool = False) -> Iterable[tuple[str, ...]]:
    """One request a row."""
    for one in requests:
        row = (
            one.name, one.phase.value, _what(one.spec), _where(one.spec), progress(one),
            one.principal or one.origin.value, _since(one.since, now_ns=now_ns), _error(one),
        )  # fmt: skip
        more = (one.origin.value, ",".join(one.jobs), "yes" if one.spec.force_detach else "", one.cluster)
        yield (*row, *more) if wide else row


def request_pairs(request: RequestView, *, now_ns: int) -> Sequence[tuple[str, str]]:
    """One request in full, but for its devices."""
    return (
        ("request", request.name),
        ("state", request.phase.value),
        ("since", moments.when(request.since, now_ns=now_ns) if request.since else ""),
        ("what", _what(request.spec)),
        ("type", request.spec.type),
        ("where", _where(request.spec)),
        ("force", "devices are taken away also while jobs hold them" if request.spec.force_detach else ""),
        ("devices", progress(request)),
        ("by", request.principal or request.origin.value),
        ("for jobs", ", ".join(request.jobs)),
        ("error", _error(request)),
        ("cluster", request.cluster),
    )


def fabric_rows(fabrics: Iterable[FabricView], *, now_ns: int) -> Iterable[tuple[str, ...]]:
    """One fabric a row."""
    for one in fabrics:
        breaker = one.breaker.value
        if one.breaker is BreakerState.OPEN and one.retry_at:
            breaker += f", tries {moments.distance(one.retry_at, now_ns=now_ns)}"
        yield (
            one.name, one.driver, breaker, _pool(one.pool, free=True), _pool(one.pool, free=False),
            f"{one.in_flight}/{one.limit}", str(one.orphans), _since(one.surveyed_at, now_ns=now_ns), one.error,
        )  # fmt: skip


def progress(request: RequestView) -> str:
    """`2 of 4 online, 1 attaching, 1 failed`, or `none attached`."""
    phases = Counter(one.phase for one in request.resources)
    online = phases.pop(AttachmentPhase.ONLINE, 0)
    phases.pop(AttachmentPhase.DETACHED, None)
    others = [f"{phases[phase]} {phase.value}" for phase in AttachmentPhase if phases[phase]]
    if not online and not others and not request.spec.size:
        return "none attached"
    return ", ".join([f"{online} of {request.spec.size} online", *others])


def _what(spec: ComposabilitySpec) -> str:
    return f"{spec.size} x {spec.model}"


def _where(spec: ComposabilitySpec) -> str:
    return spec.target_node or spec.allocation_policy.value


def _error(request: RequestView) -> str:
    return f"{request.field}: {request.error}" if request.field and request.error else request.error


def _pool(pool: Iterable[PoolModel], *, free: bool) -> str:
    """`3 H100, 1 A100`; what there is none of is told as long as it is in the pool's list."""
    return ", ".join(f"{one.free if free else one.attached} {one.model}" for one in pool)


def _since(at_ns: int, *, now_ns: int) -> str:
    return moments.distance(at_ns, now_ns=now_ns) if at_ns else ""
