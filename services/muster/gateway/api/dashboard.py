"""Serve the snapshot of the live view, the broker credential and the files of the dashboard.

Every GET path outside the API is a page of the dashboard if a browser asks for it; the page itself knows its paths.
Other clients get 404.
"""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route
from starlette.types import Scope
from typing_extensions import override

from muster.gateway import answers
from muster.gateway.api.dependencies import Caller, Context, app_context
from muster.gateway.api.openapi import refusals
from muster.gateway.authenticate import BEARER, LIVE_CREDENTIAL
from muster.gateway.context import AppContext
from muster.gateway.dashboard import ASSETS, INDEX
from muster.gateway.live import Live
from muster.gateway.problems import unavailable
from muster.schemas.live import LiveCredential, Snapshot

router = APIRouter(tags=["live"], responses=refusals())
_NO_STORE = {"Cache-Control": "no-store"}

HTML = "text/html"
_API = (["v1"], ["docs"], ["openapi.json"], ["healthz"], ["readyz"], ["metrics"])
_NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Muster</title></head>
<body><h1>The dashboard is not built</h1>
<p>Run <code>make web</code> in Muster's source, then load this page again; the running gateway finds it.
Released packages and images hold it. The API is at <a href="/docs">/docs</a>.</p></body></html>
"""


@router.get(
    "/v1/snapshot",
    summary="Get a snapshot of the live view",
    response_model=Snapshot,
    response_description="Rows, and the sequence of each log up to which they are complete",
)
async def snapshot(
    caller: Caller, context: Context, accept_encoding: Annotated[str, Header(include_in_schema=False)] = ""
) -> Response:
    """Return the snapshot. Subscribe first, then request it; a slice reports when to request it again."""
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
    summary="Create a broker user for one dashboard",
    response_description="A user that may subscribe until `expires_at_s`, and may not publish",
)
async def credential(caller: Caller, context: Context, request: Request, response: Response) -> LiveCredential:
    """Create a broker user limited to what the token's principal may see."""
    response.headers.update(_NO_STORE)
    return _live(context).credentials.give(caller, request.scope[BEARER])


def _live(context: AppContext) -> Live:
    if context.live is None:
        raise unavailable("this gateway serves no live view")
    return context.live


async def page(request: Request) -> Response:
    """Return a page of the dashboard, or one of its files. Raises HTTPException (404)."""
    site = (await app_context(request)).site
    path = str(request.path_params["path"])
    if site is None:
        raise HTTPException(404)
    file = await asyncio.to_thread(site.file, path or INDEX)
    if file is None and _is_page(request, path):
        file = await asyncio.to_thread(site.file, INDEX)
        if file is None:
            return Response(_NOT_BUILT, status_code=503, media_type=HTML, headers=dict(site.headers))
    if file is None:
        raise HTTPException(404)
    return answers.file(request, file, site.headers)


def _is_page(request: Request, path: str) -> bool:
    """Return whether a browser asks for a page, and not for a file of a page."""
    return not path or (HTML in request.headers.get("accept", "") and not path.startswith(ASSETS))


class _Pages(Route):
    """Matches every path outside the API; a route that matches a path also determines its allowed methods."""

    @override
    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        first = str(scope.get("path", "")).split("/", 2)[1:2]
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD") or first in _API:
            return Match.NONE, {}
        return super().matches(scope)


pages = [_Pages("/{path:path}", page, methods=["GET"])]
"""The last routes, because they match every other path."""
