"""Answers as bytes: rows are passed on as they were stored, models are encoded once."""

from collections.abc import Iterable, Mapping

from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from muster.gateway.ports import NotStoredError, UnreachableError
from muster.gateway.problems import RETRY_AFTER_S, ProblemError, as_json, from_validation, unavailable
from muster.schemas.views import Problem

JSON = "application/json"
PROBLEM = "application/problem+json"


def encoded(body: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A body that is JSON already."""
    return Response(body, status_code=status, headers=headers, media_type=JSON)


def model(value: BaseModel, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """One model."""
    return encoded(value.model_dump_json().encode(), status=status, headers=headers)


def rows(name: str, bodies: Iterable[bytes], *, next_cursor: str | None = None) -> Response:
    """`{name: [...]}`, with `next_cursor` where there are pages. A cursor holds digits, letters and colons only."""
    tail = b"" if next_cursor is None else b',"next_cursor":"' + next_cursor.encode() + b'"'
    return encoded(b'{"' + name.encode() + b'":[' + b",".join(bodies) + b"]" + tail + b"}")


async def refuse(_: Request, error: Exception) -> Response:
    """An exception as its problem document."""
    match error:
        case ProblemError():
            refusal = error
        case ValidationError():
            refusal = from_validation(error)
        case NotStoredError() | UnreachableError():
            refusal = unavailable(str(error))
        case HTTPException():
            refusal = ProblemError(error.status_code, error.detail)
        case _:
            raise error
    return problem(refusal.problem, close=refusal.close)


def problem(what: Problem, *, close: bool = False) -> Response:
    """A problem document with the headers that its status asks for."""
    headers: dict[str, str] = {}
    if what.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if what.status == 503:
        headers["Retry-After"] = str(RETRY_AFTER_S)
    if close:
        headers["Connection"] = "close"
    return Response(as_json(what), status_code=what.status, headers=headers, media_type=PROBLEM)
