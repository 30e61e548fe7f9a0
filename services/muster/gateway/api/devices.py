"""Routes of devices: ComposabilityRequests, devices, fabrics, and the scaler's decisions.

Only operators attach and detach devices. A refusal of a forced request names the jobs that it would affect. Even
without force, devices come from a pool that all teams share; submitters get devices through their jobs, by the
scaler and within their quota.
"""

import re
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Response
from pydantic import ValidationError
from pydantic_core import from_json

from muster.core import Draft
from muster.gateway import answers
from muster.gateway.api.changes import until_so
from muster.gateway.api.dependencies import Caller, FirstClusterContext
from muster.gateway.api.openapi import OF_BODIES, accepted, listing, refusals
from muster.gateway.api.parameters import AnyBody, Force, Identified, Reason
from muster.gateway.authorise import Principal, force_refusal, refuse_unless
from muster.gateway.context import AppContext
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import ProblemError, conflict, invalid, not_found
from muster.schemas import ids
from muster.schemas.access import Role
from muster.schemas.base import parse_request
from muster.schemas.devices import (
    AttachmentPhase,
    ComposabilityBody,
    ComposabilityManifest,
    ComposabilitySpec,
    DeviceView,
    FabricView,
    RequestPhase,
    RequestView,
)
from muster.schemas.facts.composability import ComposeRequested, DecomposeRequested, DetachRequested
from muster.schemas.queries import AskCompose, AskDetach, DeviceCheckAnswer, RequestsAnswer, ScaleAnswer

SCALER_NAMES = re.compile(r"s[0-9]{6,}")  # requests of the scaler have these names
_OF_MANIFESTS = frozenset({"apiVersion", "kind"})

FORCE = "force"
FORCE_DETACH = "force_detach"
_UNKNOWN = DeviceCheckAnswer()

router = APIRouter(tags=["devices"], responses=refusals(404))
WHAT = "composability request"
NAME_CHARS_TOLD = 63
_OVER = frozenset({RequestPhase.REFUSED, RequestPhase.ENDED})
_REQUEST_ENDS = frozenset({RequestPhase.CLEANING, RequestPhase.DELETING, RequestPhase.ENDED})
_Name = Annotated[str, Path(description="Name of the request")]
UUID_CHARS_TOLD = 100
_DEVICE_ENDS = frozenset({AttachmentPhase.WITHHOLDING, AttachmentPhase.DETACHING, AttachmentPhase.DETACHED})
_Uuid = Annotated[str, Path(description="The device, as its node shows it")]


@dataclass(frozen=True, slots=True)
class Asked:
    """A parsed request for devices."""

    name: str
    spec: ComposabilitySpec
    name_path: str
    """Where the body has the name, for refusals."""
    spec_path: str
    """Where the body has the specification, for refusals."""

    def path(self, field: str) -> str:
        """Return the path of a specification's field in the body; another field is returned unchanged."""
        if field == "name":
            return self.name_path
        return f"{self.spec_path}.{field}" if field.partition(".")[0] in ComposabilitySpec.model_fields else field


def parse_asked(body: bytes, *, principal: str, key: str) -> Asked:
    """Parse a complete manifest, or `{name?, spec}`. A missing name is derived from the principal and the
    idempotency key. Raises pydantic.ValidationError, and ProblemError (422) for a name reserved for the scaler."""
    if _is_manifest(body):
        manifest = parse_request(ComposabilityManifest, body)
        asked = Asked(manifest.metadata.name or "", manifest.spec.resource, "metadata.name", "spec.resource")
    else:
        short = parse_request(ComposabilityBody, body)
        asked = Asked(short.name or "", short.spec, "name", "spec")
    if SCALER_NAMES.fullmatch(asked.name):
        raise invalid(
            f"{asked.name} is reserved for requests of the scaler", field=asked.name_path, cure="Use another name."
        )
    return Asked(asked.name or ids.request_name(principal, key), asked.spec, asked.name_path, asked.spec_path)


def refuse_to_compose(verdict: DeviceCheckAnswer, asked: Asked) -> None:
    """Raise ProblemError if the composer would refuse: 409 if a job or request is in the way, else 422."""
    if verdict.field:
        raise _refusal(verdict, field=asked.path(verdict.field))


def refuse_to_detach(verdict: DeviceCheckAnswer, *, what: str, name: str) -> None:
    """Raise ProblemError if the composer would refuse: 404 for an unknown object, else as `refuse_to_compose`."""
    if verdict.unknown:
        raise not_found(what, name)
    if verdict.field:
        raise _refusal(verdict, field=verdict.field)


def _refusal(verdict: DeviceCheckAnswer, *, field: str) -> ProblemError:
    if not verdict.holder:
        return invalid(verdict.reason, field=field)
    told = "" if verdict.holder in verdict.reason else f" (in the way: {verdict.holder})"
    return conflict(f"{verdict.reason}{told}", field=field, holder=verdict.holder)


def _is_manifest(body: bytes) -> bool:
    """Return whether the body is a manifest; its parser reports invalid JSON."""
    try:
        document = from_json(body)
    except ValueError:
        return False
    return isinstance(document, dict) and not _OF_MANIFESTS.isdisjoint(document)


async def refuse_unless_may_detach(
    context: AppContext, principal: Principal, asked: AskDetach, *, verb: str, force: bool
) -> None:
    """Raise ProblemError (403); for a forced request it names the flag and the holder of the device.

    asked: the detach request, without force.
    """
    if principal.is_at_least(Role.OPERATOR):
        return
    if force:
        forced = asked.model_copy(update={"force": True, "may_force": False})
        raise await _forced(principal, context.composer.detach_check(forced), verb=verb, field=FORCE, told=FORCE)
    refuse_unless(principal, Role.OPERATOR, verb=verb)


async def refuse_unless_may_compose(context: AppContext, principal: Principal, body: bytes, *, key: str) -> None:
    """Raise ProblemError (403); with `force_detach` it names that field, and the holder of the devices.

    An invalid body is not reported to a caller who may not make the request.
    """
    if principal.is_at_least(Role.OPERATOR):
        return
    try:
        asked = parse_asked(body, principal=principal.name, key=key)
    except (ProblemError, ValidationError):
        asked = None
    if asked is not None and asked.spec.force_detach:
        question = AskCompose(name=asked.name, spec=asked.spec, may_force=False)
        field = asked.path(FORCE_DETACH)
        answer = context.composer.compose_check(question)
        raise await _forced(principal, answer, verb="attach and detach devices", field=field, told=FORCE_DETACH)
    refuse_unless(principal, Role.OPERATOR, verb="attach devices")


async def _forced(
    principal: Principal, answer: Awaitable[DeviceCheckAnswer], *, verb: str, field: str, told: str
) -> ProblemError:
    """Return the refusal of a forced request. told: the field that the composer refuses if force is the reason."""
    try:
        verdict = await answer
    except (UnreachableError, ProblemError):
        verdict = _UNKNOWN  # the request is refused in any case
    if verdict.field != told:
        verdict = _UNKNOWN
    return force_refusal(principal, verb=verb, field=field, told=verdict.reason, holder=verdict.holder)


@router.get(
    "/v1/composability-requests",
    summary="List ComposabilityRequests",
    response_description="Newest first, also ended requests",
)
async def list_requests(context: FirstClusterContext) -> RequestsAnswer:
    """List the composer's requests, each with its devices."""
    return await context.composer.requests()


@router.get(
    "/v1/composability-requests/{name}",
    summary="Show a ComposabilityRequest",
    response_description="The request with its devices",
)
async def one_request(context: FirstClusterContext, name: _Name) -> RequestView:
    """Return a request of the composer."""
    found = await _request(context, name)
    if found is None:
        raise not_found(WHAT, name[:NAME_CHARS_TOLD])
    return found


@router.post(
    "/v1/composability-requests",
    summary="Attach devices of a fabric to nodes",
    response_model=RequestView,
    response_description="Accepted; `resources` reports the progress of each device",
    responses=accepted("Requested; the composer has not answered yet", ComposabilityBody)
    | refusals(*OF_BODIES, 403, 404, 409),
)
async def compose(
    caller: Caller,
    context: FirstClusterContext,
    body: Annotated[bytes, Depends(AnyBody((ComposabilityManifest, ComposabilityBody)))],
    identified: Identified,
) -> RequestView | Response:
    """Create a request, or replace the specification of an existing one; operators only. The composer checks it
    first."""
    key = identified.key
    await refuse_unless_may_compose(context, caller, body, key=key)
    asked = parse_asked(body, principal=caller.name, key=key)
    before: RequestView | None = None
    try:
        question = AskCompose(name=asked.name, spec=asked.spec, may_force=True)
        refuse_to_compose(await context.composer.compose_check(question), asked)
        before = await _request(context, asked.name)
    except UnreachableError:
        before = None  # the composer decides when it folds the request
    payload = ComposeRequested(spec=asked.spec, principal=caller.name, may_force=True, cluster=context.composer.cluster)
    draft = Draft("composability", asked.name, "compose-requested", payload, trace=identified.trace(asked.name))
    await context.log.request(draft, key=key)

    async def look() -> RequestView | None:
        found = await _request(context, asked.name)
        return found if found is not None and _is_answer(found, asked.spec, before) else None

    stands = await until_so(context, look)
    if stands is None:
        return answers.model(ComposabilityBody(name=asked.name, spec=asked.spec), status=202)
    if stands.phase is RequestPhase.REFUSED or stands.spec != asked.spec:
        verdict = DeviceCheckAnswer(field=stands.field or "spec", reason=stands.error)
        refuse_to_compose(verdict, asked)
    return stands


async def _may_decompose(
    caller: Caller, context: FirstClusterContext, name: _Name, *, force: Force = False
) -> Principal:
    verb = f"detach devices of {name[:NAME_CHARS_TOLD]}"
    await refuse_unless_may_detach(context, caller, AskDetach(request=name), verb=verb, force=force)
    return caller


@router.delete(
    "/v1/composability-requests/{name}",
    summary="Detach all devices of a request",
    response_description="All devices are detached",
    responses=accepted("Requested; the current request", RequestView) | refusals(403, 404, 409),
)
async def decompose(
    context: FirstClusterContext,
    operator: Annotated[Principal, Depends(_may_decompose)],
    name: _Name,
    asked: Identified,
    response: Response,
    *,
    force: Force = False,
    reason: Reason = "",
) -> RequestView:
    """Detach each device as soon as no job uses it, with `force` at once; operators only."""
    before = await _request(context, name)
    if before is None:
        raise not_found(WHAT, name[:NAME_CHARS_TOLD])
    if before.phase is RequestPhase.ENDED:
        return before
    verdict = await context.composer.detach_check(AskDetach(request=name, force=force, may_force=True))
    refuse_to_detach(verdict, what=WHAT, name=name)
    payload = DecomposeRequested(
        principal=operator.name, reason=reason, force=force, may_force=True, cluster=context.composer.cluster
    )
    draft = Draft("composability", name, "decompose-requested", payload, trace=asked.trace(name))
    await context.log.request(draft, key=asked.key)

    async def look() -> RequestView | None:
        found = await _request(context, name)
        if found is None:
            return before.model_copy(update={"phase": RequestPhase.ENDED, "resources": ()})
        return found if found.phase in _REQUEST_ENDS else None

    stands = await until_so(context, look) or before
    if stands.phase is not RequestPhase.ENDED:
        response.status_code = 202
    return stands


def _is_answer(found: RequestView, spec: ComposabilitySpec, before: RequestView | None) -> bool:
    """Return whether the composer accepted or refused this request. A request that was over before and is unchanged
    is no answer. An active request that is refused a new specification keeps its own and reports the reason."""
    if found.spec == spec:
        return found.phase not in _OVER or found != before
    told = (found.field, found.error)
    return bool(found.field) and (before is None or told != (before.field, before.error))


async def _request(context: AppContext, name: str) -> RequestView | None:
    """Return a request. Raises UnreachableError if the composer does not answer."""
    found = (await context.composer.requests(only=name)).requests
    return next((one for one in found if one.name == name), None)


@router.get(
    "/v1/devices",
    summary="List devices of fabrics that are attached, or being attached or detached",
    response_model=listing("devices", DeviceView),
    response_description="By node",
)
async def list_devices(context: FirstClusterContext) -> dict[str, list[DeviceView]]:
    """List the composer's devices."""
    found = (await context.composer.devices()).devices
    return {"devices": sorted(found, key=lambda one: (one.node, one.id))}


@router.get(
    "/v1/fabrics",
    summary="List composable fabrics: pool, circuit breaker, calls under way, orphans",
    response_model=listing("fabrics", FabricView),
    response_description="By name",
)
async def list_fabrics(context: FirstClusterContext) -> dict[str, list[FabricView]]:
    """List the composer's fabrics."""
    found = (await context.composer.devices()).fabrics
    return {"fabrics": sorted(found, key=lambda one: one.name)}


@router.get("/v1/scale", summary="List the scaler's newest decisions", response_description="Newest first")
async def list_choices(context: FirstClusterContext) -> ScaleAnswer:
    """List the scaler's decisions, each with the simulated alternatives."""
    return await context.scaler.choices()


async def _may_detach(caller: Caller, context: FirstClusterContext, uuid: _Uuid, *, force: Force = False) -> Principal:
    verb = f"detach device {uuid[:UUID_CHARS_TOLD]}"
    await refuse_unless_may_detach(context, caller, AskDetach(device_uuid=uuid), verb=verb, force=force)
    return caller


@router.delete(
    "/v1/devices/{uuid}",
    summary="Detach a device and return it to its pool",
    response_description="The device is detached",
    responses=accepted("Requested; the current device", DeviceView) | refusals(403, 404, 409),
)
async def detach(
    context: FirstClusterContext,
    operator: Annotated[Principal, Depends(_may_detach)],
    uuid: _Uuid,
    asked: Identified,
    response: Response,
    *,
    force: Force = False,
    reason: Reason = "",
) -> DeviceView:
    """Detach the device as soon as no job uses it, with `force` at once; operators only."""
    before = await _device(context, uuid)
    if before is None:
        raise not_found("device", uuid[:UUID_CHARS_TOLD])
    verdict = await context.composer.detach_check(AskDetach(device_uuid=uuid, force=force, may_force=True))
    refuse_to_detach(verdict, what="device", name=uuid[:UUID_CHARS_TOLD])
    payload = DetachRequested(
        principal=operator.name, reason=reason, force=force, may_force=True, cluster=context.composer.cluster
    )
    draft = Draft("device", uuid, "detach-requested", payload, trace=asked.trace(uuid))
    await context.log.request(draft, key=asked.key)

    async def look() -> DeviceView | None:
        found = await _device(context, uuid)
        if found is None:
            return before.model_copy(update={"phase": AttachmentPhase.DETACHED, "holders": ()})
        return found if found.phase in _DEVICE_ENDS else None

    stands = await until_so(context, look) or before
    if stands.phase is not AttachmentPhase.DETACHED:
        response.status_code = 202
    return stands


async def _device(context: AppContext, uuid: str) -> DeviceView | None:
    """Return an attached device. Raises UnreachableError if the composer does not answer."""
    found = (await context.composer.devices(only=uuid)).devices
    return next((one for one in found if one.device_uuid == uuid and not one.phase.is_over), None)
