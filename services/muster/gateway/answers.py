"""Encode answers: stored rows are passed on unchanged, models are encoded once."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from muster.gateway.dashboard import File
from muster.gateway.ports import NotStoredError, UnreachableError
from muster.gateway.problems import RETRY_AFTER_S, ProblemError, as_json, from_parameter, from_validation, unavailable
from muster.schemas.record import Document
from muster.schemas.views import Problem

JSON = "application/json"
PROBLEM = "application/problem+json"
PATH_CHARS_TOLD = 100


def encoded(body: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with a body that is JSON already."""
    return Response(body, status_code=status, headers=headers, media_type=JSON)


def model(value: Document, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with one model."""
    return encoded(value.model_dump_json().encode(), status=status, headers=headers)


def rows(name: str, bodies: Iterable[bytes], *, next_cursor: str | None = None, status: int = 200) -> Response:
    """Return `{name: [...]}`, with `next_cursor` for a paged list. A cursor holds digits, letters and colons only."""
    tail = b"" if next_cursor is None else b',"next_cursor":"' + next_cursor.encode() + b'"'
    return encoded(b'{"' + name.encode() + b'":[' + b",".join(bodies) + b"]" + tail + b"}", status=status)


def file(request: Request, what: File, headers: Mapping[str, str]) -> Response:
    """Return a file, or 304 if the client has it already."""
    headers = {**headers, "Cache-Control": what.cache, "ETag": what.etag, "Vary": "Accept-Encoding"}
    if what.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if what.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(what.packed, media_type=what.media_type, headers={**headers, "Content-Encoding": "gzip"})
    return Response(what.body, media_type=what.media_type, headers=headers)


async def refuse(request: Request, error: Exception) -> Response:
    """Return the problem document of an exception."""
    match error:
        case ProblemError():
            refusal = error
        case ValidationError():
            refusal = from_validation(error)
        case RequestValidationError():
            refusal = from_parameter(error.errors()[0])
        case NotStoredError() | UnreachableError():
            refusal = unavailable(str(error))
        case HTTPException():
            headers = {"Allow": _methods_of_path(request)} if error.status_code == 405 else {}
            return problem(_of_the_router(request, error), headers=headers)
        case _:
            raise error
    return problem(refusal.problem, close=refusal.close)


def problem(what: Problem, *, close: bool = False, headers: Mapping[str, str] = MappingProxyType({})) -> Response:
    """Return a problem document with the headers of its status, and with `headers`."""
    headers = dict(headers)
    if what.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if what.status == 503:
        headers["Retry-After"] = str(RETRY_AFTER_S)
    if what.retry_after_s:
        headers["Retry-After"] = str(what.retry_after_s)
    if close:
        headers["Connection"] = "close"
    return Response(as_json(what), status_code=what.status, headers=headers, media_type=PROBLEM)


def _methods_of_path(request: Request) -> str:
    """Return the methods of all routes of this path; the router itself names only those of the first route."""
    fitting = (route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE)
    return ", ".join(sorted({method for route in fitting for method in getattr(route, "methods", None) or ()}))


def _of_the_router(request: Request, error: HTTPException) -> Problem:
    """Return the problem of a path without a route (404), or without this method (405)."""
    asked = f"{request.method} {request.url.path[:PATH_CHARS_TOLD]}"
    return Problem(
        title=error.detail,
        status=error.status_code,
        detail=f"the API has no route {asked}",
        field="path" if error.status_code == 404 else "method",
        cure="See /docs for all routes.",
    )
