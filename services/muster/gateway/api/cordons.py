"""Nodes that people close: cordon, drain, resume. Operators only; nobody is ever killed for it."""

from fastapi import APIRouter, Request, Response

from muster.core import Draft
from muster.gateway.api import answers
from muster.gateway.api.composability import KEY, REASON, TRACE, trace_of
from muster.gateway.api.describe import describe, path, query, reference
from muster.gateway.authorise import refuse_unless
from muster.gateway.changes import key_of, until_so
from muster.gateway.context import AppContext, context_of, principal_of, reason_of
from muster.gateway.problems import not_found
from muster.schemas.access import Role
from muster.schemas.facts.cordons import CordonRequested
from muster.schemas.views import NodeView

router = APIRouter(tags=["nodes"])
NAME_CHARS_TOLD = 100
CORDONED, DRAINED = "cordoned", "drained"
"""How a node's reasons say it."""

_CLUSTER = query("cluster", "Whose node, where several clusters have one of that name")
_ASKED: dict[int, tuple[str, dict[str, object] | None]] = {
    200: ("It is so", reference(NodeView)),
    202: ("Requested; the node as it is now", reference(NodeView)),
}
_REFUSALS = (401, 403, 404, 422, 503)
_PARAMETERS = (path("node", "Name of the node"), _CLUSTER, REASON, KEY, TRACE)


@router.post(
    "/v1/nodes/{node}/cordon",
    summary="Place nothing new on a node",
    **describe(_ASKED, refusals=_REFUSALS, parameters=_PARAMETERS),
)
async def cordon(request: Request) -> Response:
    """What runs there runs on. A node that is being drained is only cordoned from then on."""
    return await _close(request, "cordon", is_so=CORDONED)


@router.post(
    "/v1/nodes/{node}/drain",
    summary="Place nothing new on a node, and move jobs that allow it",
    **describe(_ASKED, refusals=_REFUSALS, parameters=_PARAMETERS),
)
async def drain(request: Request) -> Response:
    """Jobs that checkpoint and may be preempted go on elsewhere after their slice; the others finish."""
    return await _close(request, "drain", is_so=DRAINED)


@router.post(
    "/v1/nodes/{node}/resume",
    summary="Use a node again",
    **describe(_ASKED, refusals=_REFUSALS, parameters=_PARAMETERS),
)
async def resume(request: Request) -> Response:
    """Takes back what people asked; what services withhold it for stands, and the answer's reasons say so."""
    return await _close(request, "resume", is_so="")


async def _close(request: Request, ask: str, *, is_so: str) -> Response:
    principal, context, name = principal_of(request), context_of(request), str(request.path_params["node"])
    refuse_unless(principal, Role.OPERATOR, verb=f"{ask} nodes")
    reason, key = reason_of(request), key_of(request)
    before = await _node(context, name)
    if before is None:
        raise not_found("node", name[:NAME_CHARS_TOLD])
    payload = CordonRequested(principal=principal.name, reason=reason, cluster=before.cluster)
    asked = Draft("node", name, f"{ask}-requested", payload, trace=trace_of(request, name, key))
    await context.log.request_operation(asked, key=key)

    async def look() -> NodeView | None:
        found = await _node(context, name)
        said = {one.what for one in found.reasons} & {CORDONED, DRAINED} if found is not None else set()
        return found if said == ({is_so} if is_so else set()) else None

    stands = await until_so(context, look)
    return answers.model(stands or before, status=202 if stands is None else 200)


async def _node(context: AppContext, name: str) -> NodeView | None:
    """The node as the scheduler has it; None if there is none. Raises UnreachableError if it does not answer."""
    views = map(NodeView.model_validate_json, await context.scheduler.nodes())
    return next((view for view in views if view.name == name), None)
