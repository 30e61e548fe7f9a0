"""ComposabilityRequests: look, make, change, delete."""

from fastapi import APIRouter, Request, Response

from muster.gateway import composing
from muster.gateway.accept import TRACEPARENT
from muster.gateway.api import answers
from muster.gateway.api.describe import CLUSTER, any_of, describe, header, list_of, path, query, reference
from muster.gateway.changes import key_of, until_so
from muster.gateway.context import AppContext, body_of, context_of, flag_of, principal_of, reason_of
from muster.gateway.forcing import refuse_unless_may_compose, refuse_unless_operator
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import not_found
from muster.schemas import ids
from muster.schemas.devices import (
    ComposabilityBody,
    ComposabilityManifest,
    ComposabilitySpec,
    RequestPhase,
    RequestView,
)
from muster.schemas.facts.composability import ComposeRequested, DecomposeRequested
from muster.schemas.queries import AskCompose, AskDetach, DeviceCheckAnswer

router = APIRouter(tags=["devices"])
WHAT = "composability request"
NAME_CHARS_TOLD = 63
KEY = header("Idempotency-Key", "The same key is the same request")
TRACE = header("traceparent", "W3C trace context that the facts and the calls to the fabric carry")
FORCE = query("force", "Also devices that jobs hold", kind="boolean")
REASON = query("reason", "Why, for the record")
_OVER = frozenset({RequestPhase.REFUSED, RequestPhase.ENDED})
_GOING = frozenset({RequestPhase.CLEANING, RequestPhase.DELETING, RequestPhase.ENDED})


@router.get(
    "/v1/composability-requests",
    summary="ComposabilityRequests",
    **describe(
        {200: ("Newest first, ended ones too", list_of("requests", RequestView))},
        refusals=(401, 404, 503),
        parameters=(CLUSTER,),
    ),
)
async def list_requests(request: Request) -> Response:
    """From the composer; each with its devices."""
    principal_of(request)
    found = (await context_of(request).composer.requests()).requests
    return answers.rows("requests", (one.model_dump_json().encode() for one in found))


@router.get(
    "/v1/composability-requests/{name}",
    summary="One ComposabilityRequest",
    **describe(
        {200: ("With its devices", reference(RequestView))},
        refusals=(401, 404, 503),
        parameters=(path("name", "Name of the request"), CLUSTER),
    ),
)
async def one_request(request: Request) -> Response:
    """From the composer."""
    principal_of(request)
    name = str(request.path_params["name"])
    found = await _request(context_of(request), name)
    if found is None:
        raise not_found(WHAT, name[:NAME_CHARS_TOLD])
    return answers.model(found)


@router.post(
    "/v1/composability-requests",
    summary="Attach devices of a fabric to nodes",
    **describe(
        {
            200: ("Accepted; its resources say how far each device is", reference(RequestView)),
            202: ("Requested; the composer has not answered yet", reference(ComposabilityBody)),
        },
        refusals=(400, 401, 403, 404, 409, 413, 422, 503),
        parameters=(CLUSTER, KEY, TRACE),
        body=any_of(ComposabilityManifest, ComposabilityBody),
    ),
)
async def compose(request: Request) -> Response:
    """Operators only. One of the same name gets the new specification. Asks the composer first whether it may be."""
    principal, context = principal_of(request), context_of(request)
    key = key_of(request)
    body = await body_of(request)
    await refuse_unless_may_compose(context, principal, body, key=key)
    asked = composing.parse(body, principal=principal.name, key=key)
    before: RequestView | None = None
    try:
        question = AskCompose(name=asked.name, spec=asked.spec, may_force=True)
        composing.refuse_to_compose(await context.composer.compose_check(question), asked)
        before = await _request(context, asked.name)
    except UnreachableError:
        before = None  # the composer decides when it folds the request
    payload = ComposeRequested(
        spec=asked.spec, principal=principal.name, may_force=True, cluster=context.composer.cluster
    )
    await context.log.request_compose(asked.name, payload, key=key, trace=trace_of(request, asked.name, key))

    async def look() -> RequestView | None:
        found = await _request(context, asked.name)
        return found if found is not None and _is_answer(found, asked.spec, before) else None

    stands = await until_so(context, look)
    if stands is None:
        return answers.model(ComposabilityBody(name=asked.name, spec=asked.spec), status=202)
    if stands.phase is RequestPhase.REFUSED or stands.spec != asked.spec:
        verdict = DeviceCheckAnswer(field=stands.field or "spec", reason=stands.error)
        composing.refuse_to_compose(verdict, asked)
    return answers.model(stands)


@router.delete(
    "/v1/composability-requests/{name}",
    summary="Give all devices of a request back",
    **describe(
        {
            200: ("Nothing of it is attached any more", reference(RequestView)),
            202: ("Requested; as it is now", reference(RequestView)),
        },
        refusals=(401, 403, 404, 409, 422, 503),
        parameters=(path("name", "Name of the request"), CLUSTER, FORCE, REASON, KEY, TRACE),
    ),
)
async def decompose(request: Request) -> Response:
    """Operators only. Devices go as soon as no job holds them; with `force` at once."""
    principal, context = principal_of(request), context_of(request)
    name = str(request.path_params["name"])
    await refuse_unless_operator(
        request, verb=f"detach devices of {name[:NAME_CHARS_TOLD]}", asked=AskDetach(request=name)
    )
    force, key = flag_of(request, "force"), key_of(request)
    payload = DecomposeRequested(
        principal=principal.name,
        reason=reason_of(request),
        force=force,
        may_force=True,
        cluster=context.composer.cluster,
    )
    before = await _request(context, name)
    if before is None:
        raise not_found(WHAT, name[:NAME_CHARS_TOLD])
    if before.phase is RequestPhase.ENDED:
        return answers.model(before)
    verdict = await context.composer.detach_check(AskDetach(request=name, force=force, may_force=True))
    composing.refuse_to_detach(verdict, what=WHAT, name=name)
    await context.log.request_decompose(name, payload, key=key, trace=trace_of(request, name, key))

    async def look() -> RequestView | None:
        found = await _request(context, name)
        if found is None:
            return before.model_copy(update={"phase": RequestPhase.ENDED, "resources": ()})
        return found if found.phase in _GOING else None

    stands = await until_so(context, look) or before
    return answers.model(stands, status=200 if stands.phase is RequestPhase.ENDED else 202)


def trace_of(request: Request, name: str, key: str) -> str:
    """The client's trace context, else one of this request's own: the same request has the same trace."""
    brought = request.headers.get("traceparent", "")
    if TRACEPARENT.match(brought):
        return brought
    own = f"{name} {key}"
    return ids.traceparent(ids.trace_id(own), ids.span_id(own))


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
