"""Request, release and list devices of composable fabrics."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from muster.bus.clock import SystemTime
from muster.cli import moments, output
from muster.cli.errors import usage
from muster.cli.jobfile import load, sentence
from muster.cli.options import Output
from muster.cli.output import emit_json, print_line
from muster.cli.session import call
from muster.schemas.devices import (
    GPU,
    AllocationPolicy,
    AttachmentPhase,
    BreakerState,
    ComposabilityBody,
    ComposabilityManifest,
    ComposabilitySpec,
    DeviceView,
    FabricView,
    PoolModel,
    RequestPhase,
    RequestView,
)

if TYPE_CHECKING:
    from muster.client import Muster


DEVICES = ("DEVICE", "NODE", "MODEL", "FABRIC", "STATE", "SINCE", "REQUEST", "HELD_BY")
DEVICES_WIDE = (*DEVICES, "TYPE", "ATTACHMENT", "FABRIC_ID", "ORIGIN", "TRY", "CLUSTER", "ERROR")
REQUESTS = ("REQUEST", "STATE", "WHAT", "WHERE", "DEVICES", "BY", "SINCE", "ERROR")
REQUESTS_WIDE = (*REQUESTS, "ORIGIN", "JOBS", "FORCE", "CLUSTER")
FABRICS = ("FABRIC", "DRIVER", "BREAKER", "POOL", "ON_NODES", "IN_FLIGHT", "ORPHANS", "SEEN", "ERROR")
NUMBERS = ("IN_FLIGHT", "ORPHANS")

NAME_BYTES = 6  # drawn for a request that was given no name
_OPTIONS = {"size": "--count", "target_node": "--node", "type": "--type", "model": "--model", "name": "--name"}


def device_rows(devices: Iterable[DeviceView], *, now_ns: int, wide: bool = False) -> Iterable[tuple[str, ...]]:
    """Return a row per device; a device without a UUID yet is shown by its attachment."""
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
    """Return a row per request."""
    for one in requests:
        row = (
            one.name, one.phase.value, _what(one.spec), _where(one.spec), progress(one),
            one.principal or one.origin.value, _since(one.since, now_ns=now_ns), _error(one),
        )  # fmt: skip
        more = (one.origin.value, ",".join(one.jobs), "yes" if one.spec.force_detach else "", one.cluster)
        yield (*row, *more) if wide else row


def request_pairs(request: RequestView, *, now_ns: int) -> Sequence[tuple[str, str]]:
    """Return the details of a request, without its devices."""
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
    """Return a row per fabric."""
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
    """Return `3 H100, 1 A100`; models of the pool's list without a free device are included."""
    return ", ".join(f"{one.free if free else one.attached} {one.model}" for one in pool)


def _since(at_ns: int, *, now_ns: int) -> str:
    return moments.distance(at_ns, now_ns=now_ns) if at_ns else ""


def devices(state_dir: Path, form: Output, *, cluster: str) -> None:
    """List devices."""
    found = call(state_dir, lambda muster: muster.devices(cluster=cluster))
    if output.emitted(found, form):
        return
    wide = form is Output.WIDE
    headings = DEVICES_WIDE if wide else DEVICES
    output.table(headings, device_rows(found, now_ns=SystemTime().wall(), wide=wide))


def requests(state_dir: Path, form: Output, *, cluster: str) -> None:
    """List ComposabilityRequests."""
    found = call(state_dir, lambda muster: muster.composability_requests(cluster=cluster))
    if output.emitted(found, form):
        return
    wide = form is Output.WIDE
    headings = REQUESTS_WIDE if wide else REQUESTS
    rows = request_rows(found, now_ns=SystemTime().wall(), wide=wide)
    output.table(headings, rows, right=NUMBERS)


def one_request(state_dir: Path, form: Output, name: str, *, cluster: str) -> None:
    """Print a request with its devices."""
    found = call(state_dir, lambda muster: muster.composability_request(name, cluster=cluster))
    if output.emitted(found, form):
        return
    now_ns = SystemTime().wall()
    output.details(request_pairs(found, now_ns=now_ns))
    if found.resources:
        print_line()
        rows = device_rows(found.resources, now_ns=now_ns, wide=True)
        output.table(DEVICES_WIDE, rows)


def fabrics(state_dir: Path, form: Output, *, cluster: str) -> None:
    """List fabrics."""
    found = call(state_dir, lambda muster: muster.fabrics(cluster=cluster))
    if output.emitted(found, form):
        return
    rows = fabric_rows(found, now_ns=SystemTime().wall())
    output.table(FABRICS, rows, right=NUMBERS)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Values of the options. Empty or None: not given."""

    model: str = ""
    count: int | None = None
    node: str = ""
    spread: bool = False
    kind: str = GPU
    force: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True)
class Named:
    """A request with its name."""

    name: str
    spec: ComposabilitySpec


def asked_of(wanted: Wanted) -> Named:
    """Return the request of the options. Raises CliError that names the option."""
    if not wanted.model:
        raise usage("--model: is missing; give a model of `muster device fabrics`, or a file with -f")
    if wanted.count is None:
        raise usage("--count: is missing; give the number of devices")
    if wanted.spread and wanted.node:
        raise usage("--spread: cannot be combined with --node; remove one of them")
    policy = AllocationPolicy.DIFFERENTNODE if wanted.spread else AllocationPolicy.SAMENODE
    try:
        spec = ComposabilitySpec(
            type=wanted.kind,
            model=wanted.model,
            size=wanted.count,
            target_node=wanted.node,
            force_detach=wanted.force,
            allocation_policy=policy,
        )
        body = ComposabilityBody(name=wanted.name or drawn_name(), spec=spec)
    except ValidationError as error:
        raise usage(_by_option(error)) from error
    return Named(body.name or "", spec)


def load_requests(path: Path) -> list[Named]:
    """Return the ComposabilityRequests of a file. Raises CliError that names the file and the field."""
    return [Named(one.metadata.name or drawn_name(), one.spec.resource) for one in load(path, ComposabilityManifest)]


def drawn_name() -> str:
    """Return a unique name."""
    return f"request-{os.urandom(NAME_BYTES).hex()}"


def attach(state_dir: Path, form: Output, requests: Sequence[Named], *, cluster: str) -> None:
    """Send each request and print its result; stop at the first refusal. Raises CliError."""

    async def ask(muster: "Muster") -> None:
        for one in requests:
            _tell_attached(one, await muster.compose(one.spec, name=one.name, cluster=cluster), form)

    call(state_dir, ask)


def detach_device(state_dir: Path, form: Output, uuid: str, *, force: bool, reason: str, cluster: str) -> None:
    """Request the detach of a device. Raises CliError that names the job that uses it."""
    device = call(state_dir, lambda muster: muster.detach(uuid, force=force, reason=reason, cluster=cluster))
    if output.emitted(device, form):
        return
    if device.phase is AttachmentPhase.DETACHED:
        print_line(f"{uuid}: detached from {device.node}")
    else:
        held = f"; held by {', '.join(device.holders)}" if device.holders else ""
        print_line(f"{uuid}: detach requested, {device.phase.value} on {device.node}{held}")


def detach_request(state_dir: Path, form: Output, name: str, *, force: bool, reason: str, cluster: str) -> None:
    """Request the detach of all devices of a request. Raises CliError."""
    request = call(state_dir, lambda muster: muster.decompose(name, force=force, reason=reason, cluster=cluster))
    if output.emitted(request, form):
        return
    if request.phase is RequestPhase.ENDED:
        print_line(f"{name}: deleted, no device is attached")
    else:
        print_line(f"{name}: deletion requested, {request.phase.value}, {progress(request)}")


def _tell_attached(asked: Named, accepted: RequestView | None, form: Output) -> None:
    if form is Output.JSON:
        body = None if accepted is None else accepted.model_dump(mode="json")
        emit_json({"name": asked.name, "request": body}, indent=None)
    elif accepted is None:
        print_line(f"{asked.name}: requested; the composer has not answered yet")
    else:
        # in this phase the composer has judged nothing yet: a fabric has still to tell what it holds
        said = "not yet judged" if accepted.phase is RequestPhase.NODE_ALLOCATING else "accepted"
        print_line(f"{asked.name}: {said}, {accepted.phase.value}, {progress(accepted)}")


def _by_option(error: ValidationError) -> str:
    """Return the message with the name of the option in place of the field."""
    field, colon, rest = sentence(error).partition(":")
    return f"{_OPTIONS.get(field, field)}{colon}{rest}"
