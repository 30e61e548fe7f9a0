"""ComposabilityRequests: look, make, change, delete."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Response

from muster.gateway import composing
from muster.gateway.api import answers
from muster.gateway.api.bodies import AnyBody
from muster.gateway.api.dependencies import Caller, FirstClusterContext
from muster.gateway.api.openapi import OF_BODIES, accepted, refusals
from muster.gateway.api.parameters import Force, Identified, Reason
from muster.gateway.authorise import Principal
from muster.gateway.changes import until_so
from muster.gateway.context import AppContext
from muster.gateway.forcing import refuse_unless_may_compose, refuse_unless_may_detach
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import not_found
from muster.schemas.devices import (
    ComposabilityBody,
    ComposabilityManifest,
    ComposabilitySpec,
    RequestPhase,
    RequestView,
)
from muster.schemas.facts.composability import ComposeRequested, DecomposeRequested
from muster.schemas.queries import AskCompose, AskDetach, DeviceCheckAnswer, RequestsAnswer

router = APIRouter(tags=["devices"], responses=refusals(404))
WHAT = "composability request"
NAME_CHARS_TOLD = 63
_OVER = frozenset({RequestPhase.REFUSED, RequestPhase.ENDED})
_GOING = frozenset({RequestPhase.CLEANING, RequestPhase.DELETING, RequestPhase.ENDED})
_Name = Annotated[str, Path(description="Name of the request")]


@router.get(
    "/v1/composability-requests", summary="ComposabilityRequests", response_description="Newest first, ended ones too"
)
async def list_requests(context: FirstClusterContext) -> RequestsAnswer:
    """From the composer; each with its devices."""
    return await context.composer.requests()


@router.get(
    "/v1/composability-requests/{name}", summary="One ComposabilityRequest", response_description="With its devices"
)
async def one_request(context: FirstClusterContext, name: _Name) -> RequestView:
    """From the composer."""
    found = await _request(context, name)
    if found is None:
        raise not_found(WHAT, name[:NAME_CHARS_TOLD])
    return found


@router.post(
    "/v1/composability-requests",
    summary="Attach devices of a fabric to nodes",
    response_model=RequestView,
    response_description="Accepted; its resources say how far each device is",
    responses=accepted("Requested; the composer has not answered yet", ComposabilityBody)
    | refusals(*OF_BODIES, 403, 404, 409),
)
async def compose(
    caller: Caller,
    context: FirstClusterContext,
    body: Annotated[bytes, Depends(AnyBody((ComposabilityManifest, ComposabilityBody)))],
    identified: Identified,
) -> RequestView | Response:
    """Operators only. One of the same name gets the new specification. Asks the composer first whether it may be."""
    key = identified.key
    await refuse_unless_may_compose(context, caller, body, key=key)
    asked = composing.parse(body, principal=caller.name, key=key)
    before: RequestView | None = None
    try:
        question = AskCompose(name=asked.name, spec=asked.spec, may_force=True)
        composing.refuse_to_compose(await context.composer.compose_check(question), asked)
        before = await _request(context, asked.name)
    except UnreachableError:
        before = None  # the composer decides when it folds the request
    payload = ComposeRequested(spec=asked.spec, principal=caller.name, may_force=True, cluster=context.composer.cluster)
    await context.log.request_compose(asked.name, payload, key=key, trace=identified.trace(asked.name))

    async def look() -> RequestView | None:
        found = await _request(context, asked.name)
        return found if found is not None and _is_answer(found, asked.spec, before) else None

    stands = await until_so(context, look)
    if stands is None:
        return answers.model(ComposabilityBody(name=asked.name, spec=asked.spec), status=202)
    if stands.phase is RequestPhase.REFUSED or stands.spec != asked.spec:
        verdict = DeviceCheckAnswer(field=stands.field or "spec", reason=stands.error)
        composing.refuse_to_compose(verdict, asked)
    return stands


async def _may_decompose(
    caller: Caller, context: FirstClusterContext, name: _Name, *, force: Force = False
) -> Principal:
    verb = f"detach devices of {name[:NAME_CHARS_TOLD]}"
    await refuse_unless_may_detach(context, caller, AskDetach(request=name), verb=verb, force=force)
    return caller


@router.delete(
    "/v1/composability-requests/{name}",
    summary="Give all devices of a request back",
    response_description="Nothing of it is attached any more",
    responses=accepted("Requested; as it is now", RequestView) | refusals(403, 404, 409),
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
    """Operators only. Devices go as soon as no job holds them; with `force` at once."""
    before = await _request(context, name)
    if before is None:
        raise not_found(WHAT, name[:NAME_CHARS_TOLD])
    if before.phase is RequestPhase.ENDED:
        return before
    verdict = await context.composer.detach_check(AskDetach(request=name, force=force, may_force=True))
    composing.refuse_to_detach(verdict, what=WHAT, name=name)
    payload = DecomposeRequested(
        principal=operator.name, reason=reason, force=force, may_force=True, cluster=context.composer.cluster
    )
    await context.log.request_decompose(name, payload, key=asked.key, trace=asked.trace(name))

    async def look() -> RequestView | None:
        found = await _request(context, name)
        if found is None:
            return before.model_copy(update={"phase": RequestPhase.ENDED, "resources": ()})
        return found if found.phase in _GOING else None

    stands = await until_so(context, look) or before
    if stands.phase is not RequestPhase.ENDED:
        response.status_code = 202
    return stands


def _is_answer(found: RequestView, spec: ComposabilitySpec, before: RequestView | None) -> bool:
    """Whether the composer took it up or refused it; what stood so before is no answer if it is over.

    A request that lives keeps its specification when it is refused another one, and tells why.
    """
    if found.spec == spec:
        return found.phase not in _OVER or found != before
    told = (found.field, found.error)
    return bool(found.field) and (before is None or told != (before.field, before.error))


async def _request(context: AppContext, name: str) -> RequestView | None:
    """Raises UnreachableError if the composer does not answer."""
    found = (await context.composer.requests(only=name)).requests
    return next((one for one in found if one.name == name), None)
