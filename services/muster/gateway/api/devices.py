"""Devices of composable fabrics, the fabrics themselves, and what the scaler chose: look, and detach one."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Response

from muster.gateway import composing
from muster.gateway.api.dependencies import Caller, FirstClusterContext
from muster.gateway.api.openapi import accepted, listing, refusals
from muster.gateway.api.parameters import Force, Identified, Reason
from muster.gateway.authorise import Principal
from muster.gateway.changes import until_so
from muster.gateway.context import AppContext
from muster.gateway.forcing import refuse_unless_may_detach
from muster.gateway.problems import not_found
from muster.schemas.devices import AttachmentPhase, DeviceView, FabricView
from muster.schemas.facts.composability import DetachRequested
from muster.schemas.queries import AskDetach, ScaleAnswer

router = APIRouter(tags=["devices"], responses=refusals(404))
UUID_CHARS_TOLD = 100
_GOING = frozenset({AttachmentPhase.WITHHOLDING, AttachmentPhase.DETACHING, AttachmentPhase.DETACHED})
_Uuid = Annotated[str, Path(description="The device, as its node shows it")]


@router.get(
    "/v1/devices",
    summary="Devices of fabrics on nodes, and on their way there or back",
    response_model=listing("devices", DeviceView),
    response_description="By node",
)
async def list_devices(context: FirstClusterContext) -> dict[str, list[DeviceView]]:
    """From the composer."""
    found = (await context.composer.devices()).devices
    return {"devices": sorted(found, key=lambda one: (one.node, one.id))}


@router.get(
    "/v1/fabrics",
    summary="Composable fabrics: pool, breaker, calls under way, orphans",
    response_model=listing("fabrics", FabricView),
    response_description="By name",
)
async def list_fabrics(context: FirstClusterContext) -> dict[str, list[FabricView]]:
    """From the composer."""
    found = (await context.composer.devices()).fabrics
    return {"fabrics": sorted(found, key=lambda one: one.name)}


@router.get("/v1/scale", summary="The scaler's newest choices", response_description="Newest first")
async def list_choices(context: FirstClusterContext) -> ScaleAnswer:
    """From the scaler; each with the alternatives that were simulated."""
    return await context.scaler.choices()


async def _may_detach(caller: Caller, context: FirstClusterContext, uuid: _Uuid, *, force: Force = False) -> Principal:
    verb = f"detach device {uuid[:UUID_CHARS_TOLD]}"
    await refuse_unless_may_detach(context, caller, AskDetach(device_uuid=uuid), verb=verb, force=force)
    return caller


@router.delete(
    "/v1/devices/{uuid}",
    summary="Give one device back to its pool",
    response_description="It is back",
    responses=accepted("Requested; as it is now", DeviceView) | refusals(403, 404, 409),
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
    """Operators only. It goes as soon as no job holds it; with `force` at once."""
    before = await _device(context, uuid)
    if before is None:
        raise not_found("device", uuid[:UUID_CHARS_TOLD])
    verdict = await context.composer.detach_check(AskDetach(device_uuid=uuid, force=force, may_force=True))
    composing.refuse_to_detach(verdict, what="device", name=uuid[:UUID_CHARS_TOLD])
    payload = DetachRequested(
        principal=operator.name, reason=reason, force=force, may_force=True, cluster=context.composer.cluster
    )
    await context.log.request_detach(uuid, payload, key=asked.key, trace=asked.trace(uuid))

    async def look() -> DeviceView | None:
        found = await _device(context, uuid)
        if found is None:
            return before.model_copy(update={"phase": AttachmentPhase.DETACHED, "holders": ()})
        return found if found.phase in _GOING else None

    stands = await until_so(context, look) or before
    if stands.phase is not AttachmentPhase.DETACHED:
        response.status_code = 202
    return stands


async def _device(context: AppContext, uuid: str) -> DeviceView | None:
    """The device as it is attached. Raises UnreachableError if the composer does not answer."""
    found = (await context.composer.devices(only=uuid)).devices
    return next((one for one in found if one.device_uuid == uuid and not one.phase.is_over), None)
