"""How the API servers of the cluster are: what the guard sees and advises."""

from fastapi import APIRouter, Request, Response

from muster.gateway.api import answers
from muster.gateway.api.describe import CLUSTER, describe, reference
from muster.gateway.context import context_of, principal_of
from muster.schemas.apiserver import ApiServerReport

router = APIRouter(tags=["clusters"])


@router.get(
    "/v1/apiserver",
    summary="The guard's report on the API servers",
    **describe(
        {200: ("As of its newest look", reference(ApiServerReport))}, refusals=(401, 404, 503), parameters=(CLUSTER,)
    ),
)
async def report(request: Request) -> Response:
    """From the guard: memory of each replica, who lists, flow control, advice. A simulated cluster has none of it."""
    principal_of(request)
    return answers.model(await context_of(request).guard.report())
