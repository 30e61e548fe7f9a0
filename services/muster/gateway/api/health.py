"""Whether the gateway lives, whether it can serve, and its metrics. Open to everyone: they tell nothing of jobs."""

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


@router.get("/healthz", summary="Alive", response_description="Alive")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz", summary="Ready", response_description="Ready", responses=refusals(422, 503, always=()))
async def readyz(
    context: WholeContext,
    *,
    leaders: Annotated[Flag, Query(description="Also ask whether the services that decide are led")] = True,
) -> dict[str, str]:
    """Tokens were read, jobs can be checked, and the services that decide are led.

    `leaders=false` leaves out the last: what this process alone can answer for.
    """
    if not context.tokens.is_ready:
        raise unavailable("the tokens were not read yet")
    if not context.catalogue.is_fresh:
        raise unavailable("queues and nodes are not known")
    unled = context.leadership.missing if leaders else ()
    if unled:
        raise unavailable(f"nobody leads {', '.join(unled)}; the service's own log and /readyz say why")
    return {"status": "ready"}


@router.get("/metrics", response_class=PlainTextResponse, summary="Prometheus metrics", response_description="Text")
async def metrics(context: WholeContext, accept: Annotated[str, Depends(_accept)]) -> Response:
    """In Prometheus' text format, or in OpenMetrics, which has exemplars, for who accepts that."""
    encode, media_type = choose_encoder(accept)
    return Response(encode(context.metrics.registry), media_type=media_type)
