"""The dashboard's files, beside the API: its pages for people, and everything that these load.

Every path that is not the API's is a page of the dashboard, if a browser asks for one: the page itself knows which
there are. Anybody else is told that there is nothing, as everywhere.
"""

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from muster.gateway.api import answers
from muster.gateway.api.dependencies import app_context
from muster.gateway.dashboard import ASSETS, INDEX

HTML = "text/html"
_API = (["v1"], ["docs"], ["openapi.json"], ["healthz"], ["readyz"], ["metrics"])
_NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Muster</title></head>
<body><h1>The dashboard is not built</h1>
<p>Run <code>make web</code> in Muster's source, then load this page again; the running gateway finds it.
Released packages and images hold it. The API is at <a href="/docs">/docs</a>.</p></body></html>
"""


async def page(request: Request) -> Response:
    """A page of the dashboard, or a file beside it. Raises HTTPException (404)."""
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
    """Whether a person's browser asks for a page, and not a page for one of its files."""
    return not path or (HTML in request.headers.get("accept", "") and not path.startswith(ASSETS))


class _Pages(Route):
    """Every path but the API's, which is told apart here: a route that fits a path speaks for its methods, too."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """See `Route.matches`."""
        first = str(scope.get("path", "")).split("/", 2)[1:2]
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD") or first in _API:
            return Match.NONE, {}
        return super().matches(scope)


routes = [_Pages("/{path:path}", page, methods=["GET"])]
"""Last of all, since every other path fits."""
