"""Nodes."""

from fastapi import APIRouter, Request, Response

from muster.gateway.api import answers
from muster.gateway.api.describe import ONLY_CLUSTER, describe, list_of
from muster.gateway.context import context_of, principal_of
from muster.gateway.ports import UnreachableError
from muster.schemas.views import NodeView

router = APIRouter(tags=["nodes"])


@router.get(
    "/v1/nodes",
    summary="All nodes",
    **describe({200: ("By name", list_of("nodes", NodeView))}, refusals=(401, 404, 503), parameters=(ONLY_CLUSTER,)),
)
async def list_nodes(request: Request) -> Response:
    """From the read model, else from the scheduler."""
    principal_of(request)
    context = context_of(request)
    try:
        rows = await context.view.nodes()
    except UnreachableError:
        rows = ()
    return answers.rows("nodes", rows or await context.scheduler.nodes())
