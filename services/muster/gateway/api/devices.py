"""Devices of composable fabrics and the fabrics themselves: look, and detach one."""

from fastapi import APIRouter, Request, Response

from muster.gateway import composing
from muster.gateway.api import answers
from muster.gateway.api.composability import FORCE, KEY, REASON, TRACE, trace_of
from muster.gateway.api.describe import CLUSTER, describe, list_of, path, reference
from muster.gateway.changes import key_of, until_so
from muster.gateway.context import AppContext, context_of, flag_of, principal_of, reason_of
from muster.gateway.forcing import refuse_unless_operator
from muster.gateway.problems import not_found
from muster.schemas.devices import AttachmentPhase, DeviceView, FabricView
from muster.schemas.facts.composability import DetachRequested
from muster.schemas.queries import AskDetach

router = APIRouter(tags=["devices"])
UUID_CHARS_TOLD = 100
_GOING = frozenset({AttachmentPhase.WITHHOLDING, AttachmentPhase.DETACHING, AttachmentPhase.DETACHED})


@router.get(
    "/v1/devices",
    summary="Devices of fabrics on nodes, and on their way there or back",
    **describe({200: ("By node", list_of("devices", DeviceView))}, refusals=(401, 404, 503), parameters=(CLUSTER,)),
)
async def list_devices(request: Request) -> Response:
    """From the composer."""
    principal_of(request)
    found = (await context_of(request).composer.devices()).devices
    ordered = sorted(found, key=lambda one: (one.node, one.id))
    return answers.rows("devices", (one.model_dump_json().encode() for one in ordered))


@router.get(
    "/v1/fabrics",
    summary="Composable fabrics: pool, breaker, calls under way, orphans",
    **describe({200: ("By name", list_of("fabrics", FabricView))}, refusals=(401, 404, 503), parameters=(CLUSTER,)),
)
async def list_fabrics(request: Request) -> Response:
    """From the composer."""
    principal_of(request)
    found = (await context_of(request).composer.devices()).fabrics
    ordered = sorted(found, key=lambda one: one.name)
    return answers.rows("fabrics", (one.model_dump_json().encode() for one in ordered))


@router.delete(
    "/v1/devices/{uuid}",
    summary="Give one device back to its pool",
    **describe(
        {
            200: ("It is back", reference(DeviceView)),
            202: ("Requested; as it is now", reference(DeviceView)),
        },
        refusals=(401, 403, 404, 409, 422, 503),
        parameters=(path("uuid", "The device, as its node shows it"), CLUSTER, FORCE, REASON, KEY, TRACE),
    ),
)
async def detach(request: Request) -> Response:
    """Operators only. It goes as soon as no job holds it; with `force` at once."""
    principal, context = principal_of(request), context_of(request)
    uuid = str(request.path_params["uuid"])
    await refuse_unless_operator(
        request, verb=f"detach device {uuid[:UUID_CHARS_TOLD]}", asked=AskDetach(device_uuid=uuid)
    )
    force, key = flag_of(request, "force"), key_of(request)
    payload = DetachRequested(
        principal=principal.name,
        reason=reason_of(request),
        force=force,
        may_force=True,
        cluster=context.composer.cluster,
    )
    before = await _device(context, uuid)
    if before is None:
        raise not_found("device", uuid[:UUID_CHARS_TOLD])
    verdict = await context.composer.detach_check(AskDetach(device_uuid=uuid, force=force, may_force=True))
    composing.refuse_to_detach(verdict, what="device", name=uuid[:UUID_CHARS_TOLD])
    await context.log.request_detach(uuid, payload, key=key, trace=trace_of(request, uuid, key))

    async def look() -> DeviceView | None:
        found = await _device(context, uuid)
        if found is None:
            return before.model_copy(update={"phase": AttachmentPhase.DETACHED, "holders": ()})
        return found if found.phase in _GOING else None

    stands = await until_so(context, look) or before
    return answers.model(stands, status=200 if stands.phase is AttachmentPhase.DETACHED else 202)


async def _device(context: AppContext, uuid: str) -> DeviceView | None:
    """The device as it is attached. Raises UnreachableError if the composer does not answer."""
    found = (await context.composer.devices(only=uuid)).devices
    return next((one for one in found if one.device_uuid == uuid and not one.phase.is_over), None)
