"""Liveness, readiness and metrics of the gateway. Open without a token: they show nothing of jobs."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from prometheus_client.exposition import choose_encoder
from starlette.responses import PlainTextResponse

from muster.gateway.api.dependencies import WholeContext
from muster.gateway.api.openapi import refusals
from muster.gateway.api.parameters import Flag
from muster.gateway.problems import unavailable

router = APIRouter(tags=["health"])


async def _accept(request: Request) -> str:
    return request.headers.get("accept", "")


@router.get("/healthz", summary="Check liveness", response_description="The process answers")
async def healthz() -> dict[str, str]:
    """Return ok while the process answers."""
    return {"status": "ok"}


@router.get(
    "/readyz",
    summary="Check readiness",
    response_description="The gateway can serve",
    responses=refusals(422, 503, always=()),
)
async def readyz(
    context: WholeContext,
    *,
    leaders: Annotated[Flag, Query(description="Also check that the required services have a leader")] = True,
) -> dict[str, str]:
    """Return ready if tokens were read, jobs can be checked, and the required services have a leader.

    `leaders=false` checks this process alone.
    """
    if not context.tokens.is_ready:
        raise unavailable("the tokens have not been read yet")
    if not context.catalogue.is_fresh:
        raise unavailable("the queues and nodes are not known yet")
    unled = context.leadership.missing if leaders else ()
    if unled:
        raise unavailable(f"no leader for {', '.join(unled)}; the log and /readyz of the service give the reason")
    return {"status": "ready"}


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    summary="Get Prometheus metrics",
    response_description="Metrics as text",
)
async def metrics(context: WholeContext, accept: Annotated[str, Depends(_accept)]) -> Response:
    """Return metrics in Prometheus' text format, or in OpenMetrics with exemplars if the client accepts it."""
    encode, media_type = choose_encoder(accept)
    return Response(encode(context.metrics.registry), media_type=media_type)
