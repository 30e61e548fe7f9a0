"""Whether the gateway lives, whether it can serve, and its metrics. Open to everyone: they tell nothing of jobs."""

from fastapi import APIRouter, Request, Response
from prometheus_client.exposition import choose_encoder
from starlette.responses import PlainTextResponse

from muster.gateway.api import answers
from muster.gateway.api.describe import describe
from muster.gateway.context import flag_of, whole_context_of
from muster.gateway.problems import unavailable

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Alive", **describe({200: ("Alive", {"type": "object"})}, refusals=()))
async def healthz(_: Request) -> Response:
    """The process answers."""
    return answers.encoded(b'{"status":"ok"}')


@router.get("/readyz", summary="Ready", **describe({200: ("Ready", {"type": "object"})}, refusals=(503,)))
async def readyz(request: Request) -> Response:
    """Tokens were read, jobs can be checked, and the services that decide are led.

    `leaders=false` leaves out the last: what this process alone can answer for.
    """
    context = whole_context_of(request)
    if not context.tokens.is_ready:
        raise unavailable("the tokens were not read yet")
    if not context.catalogue.is_fresh:
        raise unavailable("queues and nodes are not known")
    unled = context.leadership.missing if flag_of(request, "leaders", default=True) else ()
    if unled:
        raise unavailable(f"nobody leads {', '.join(unled)}; the service's own log and /readyz say why")
    return answers.encoded(b'{"status":"ready"}')


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    summary="Prometheus metrics",
    **describe({200: ("Text", None)}, refusals=()),
)
async def metrics(request: Request) -> Response:
    """In Prometheus' text format, or in OpenMetrics, which has exemplars, for who accepts that."""
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(whole_context_of(request).metrics.registry), media_type=media_type)
