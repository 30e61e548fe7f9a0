"""The live view: where a dashboard begins, and what it connects to the broker with."""

import asyncio

from fastapi import APIRouter, Request, Response

from muster.gateway.api import answers
from muster.gateway.api.describe import describe, reference
from muster.gateway.authenticate import BEARER, LIVE_CREDENTIAL
from muster.gateway.context import AppContext, context_of, principal_of
from muster.gateway.live import Live
from muster.gateway.problems import unavailable
from muster.schemas.live import LiveCredential, Snapshot

router = APIRouter(tags=["live"])
_NO_STORE = {"Cache-Control": "no-store"}


@router.get(
    "/v1/snapshot",
    summary="Everything that is live",
    **describe({200: ("Rows, and up to which sequence of each log they hold", reference(Snapshot))}),
)
async def snapshot(request: Request) -> Response:
    """Listen first, then ask for this; a slice says when to ask again."""
    principal = principal_of(request)
    live = _live(context_of(request))
    audiences = live.credentials.audiences(principal)
    image = await live.snapshots.image()
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return answers.encoded(image.whole(audiences), headers={**_NO_STORE, "Vary": "Accept-Encoding"})
    body = await asyncio.to_thread(image.gzipped, audiences)
    headers = {**_NO_STORE, "Vary": "Accept-Encoding", "Content-Encoding": "gzip"}
    return answers.encoded(body, headers=headers)


@router.post(
    LIVE_CREDENTIAL,
    summary="A user of the broker for one dashboard",
    **describe({201: ("May listen until `expires_at_s`, and send nothing", reference(LiveCredential))}),
)
async def credential(request: Request) -> Response:
    """Limited to what the token's principal may see."""
    principal = principal_of(request)
    given = _live(context_of(request)).credentials.give(principal, request.scope[BEARER])
    return answers.model(given, status=201, headers=_NO_STORE)


def _live(context: AppContext) -> Live:
    if context.live is None:
        raise unavailable("this gateway serves no live view")
    return context.live
