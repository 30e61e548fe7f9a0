"""The live view: where a dashboard begins, and what it connects to the broker with."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from muster.gateway.api import answers
from muster.gateway.api.dependencies import Caller, Context
from muster.gateway.api.openapi import refusals
from muster.gateway.authenticate import BEARER, LIVE_CREDENTIAL
from muster.gateway.context import AppContext
from muster.gateway.live import Live
from muster.gateway.problems import unavailable
from muster.schemas.live import LiveCredential, Snapshot

router = APIRouter(tags=["live"], responses=refusals())
_NO_STORE = {"Cache-Control": "no-store"}


@router.get(
    "/v1/snapshot",
    summary="Everything that is live",
    response_model=Snapshot,
    response_description="Rows, and up to which sequence of each log they hold",
)
async def snapshot(
    caller: Caller, context: Context, accept_encoding: Annotated[str, Header(include_in_schema=False)] = ""
) -> Response:
    """Listen first, then ask for this; a slice says when to ask again."""
    live = _live(context)
    audiences = live.credentials.audiences(caller)
    image = await live.snapshots.image()
    headers = {**_NO_STORE, "Vary": "Accept-Encoding"}
    if "gzip" not in accept_encoding:
        return answers.encoded(image.whole(audiences), headers=headers)
    body = await asyncio.to_thread(image.gzipped, audiences)
    return answers.encoded(body, headers={**headers, "Content-Encoding": "gzip"})


@router.post(
    LIVE_CREDENTIAL,
    status_code=201,
    summary="A user of the broker for one dashboard",
    response_description="May listen until `expires_at_s`, and send nothing",
)
async def credential(caller: Caller, context: Context, request: Request, response: Response) -> LiveCredential:
    """Limited to what the token's principal may see."""
    response.headers.update(_NO_STORE)
    return _live(context).credentials.give(caller, request.scope[BEARER])


def _live(context: AppContext) -> Live:
    if context.live is None:
        raise unavailable("this gateway serves no live view")
    return context.live
