"""Refusals as RFC 9457 problem documents: which field is wrong, and what to do. Pure."""

import json
from collections.abc import Mapping
from typing import cast

from pydantic import ValidationError

from muster.schemas.views import Problem

RETRY_AFTER_S = 1
_DETAIL_MAX = 500
_KEY = "[key]"  # how pydantic marks that the name itself is wrong, and not what stands under it


class ProblemError(Exception):
    """The request is refused or cannot be served; `problem` is the whole answer."""

    def __init__(
        self,
        status: int,
        title: str,
        *,
        detail: str = "",
        field: str = "",
        cure: str = "",
        holder: str = "",
        close: bool = False,
        retry_after_s: int = 0,
    ) -> None:
        super().__init__(f"{status} {title}: {detail}")
        self.problem = Problem(
            title=title,
            status=status,
            detail=detail,
            field=field,
            cure=cure,
            holder=holder,
            retry_after_s=retry_after_s,
        )
        self.close = close
        """End the connection, since the rest of the request was not read."""


def unauthorised(detail: str) -> ProblemError:
    """401: nobody knows who asks."""
    return ProblemError(
        401, "Unauthorised", detail=detail, field="Authorization", cure="Send `Authorization: Bearer <token>`."
    )


def forbidden(detail: str, *, field: str = "", cure: str = "", holder: str = "") -> ProblemError:
    """403: known, but may not. holder: who would be hurt, if somebody would."""
    return ProblemError(403, "Forbidden", detail=detail, field=field, cure=cure, holder=holder)


def not_found(what: str, name: str, *, cure: str = "Check the name.") -> ProblemError:
    """404."""
    return ProblemError(404, "Not found", detail=f"there is no {what} {name!r}", field=what, cure=cure)


def conflict(detail: str, *, field: str = "", cure: str = "", holder: str = "") -> ProblemError:
    """409: what is asked contradicts what stands. holder: who stands in the way, if somebody does."""
    return ProblemError(409, "Conflict", detail=detail, field=field, cure=cure, holder=holder)


def too_large(detail: str, *, field: str, cure: str, close: bool = False) -> ProblemError:
    """413."""
    return ProblemError(413, "Too large", detail=detail, field=field, cure=cure, close=close)


def invalid(detail: str, *, field: str, cure: str = "") -> ProblemError:
    """422: understood, but it can never be."""
    return ProblemError(422, "Invalid request", detail=detail, field=field, cure=cure)


def timed_out(detail: str, *, field: str) -> ProblemError:
    """408: the request did not come to its end."""
    return ProblemError(408, "Request timeout", detail=detail, field=field, cure="Send the request again.", close=True)


def too_many(detail: str, *, field: str, wait_s: int) -> ProblemError:
    """429: more than the limits allow; the same request may be sent after `wait_s`."""
    return ProblemError(
        429,
        "Too many requests",
        detail=detail,
        field=field,
        cure=f"Send it again in {wait_s} s; `muster quota` shows your limits, an admin sets them (`access`).",
        retry_after_s=wait_s,
    )


def unavailable(detail: str) -> ProblemError:
    """503: not now; nothing was lost, the same request may be sent again."""
    return ProblemError(
        503, "Unavailable", detail=detail, cure="Send the same request again, with the same Idempotency-Key."
    )


def from_validation(error: ValidationError) -> ProblemError:
    """The first thing wrong with a body; 400 if it is no JSON, else 422 with the field's path."""
    first, *rest = error.errors(include_url=False, include_input=False, include_context=False)
    more = sum(other["loc"] != first["loc"][: len(other["loc"])] for other in rest)  # not what follows from the first
    detail = first["msg"][:_DETAIL_MAX] + (f" (and {more} more)" if more else "")
    if first["type"] == "json_invalid":
        return ProblemError(400, "Not JSON", detail=detail, field="body", cure="Send one JSON document.")
    field = ".".join(str(part) for part in first["loc"] if part != _KEY) or _named_in(detail)
    return invalid(detail, field=field, cure=_cure(first["type"], field))


def from_parameter(error: Mapping[str, object]) -> ProblemError:
    """422: a wrong parameter of path, query or header. error: as pydantic tells it; `ctx` may say a `cure`."""
    field = str(cast("tuple[str | int, ...]", error["loc"])[-1])
    context = cast("Mapping[str, str]", error.get("ctx", {}))
    return invalid(str(error["msg"])[:_DETAIL_MAX], field=field, cure=context.get("cure") or _cure("", field))


def _named_in(message: str) -> str:
    """A check over several fields names the first of them itself, in backquotes or before a colon."""
    for opening, closing in (("`", "`"), ("Value error, ", ":")):
        _, found, rest = message.partition(opening)
        name, end, _ = rest.partition(closing)
        if found and end and name.replace("_", "").isalnum():
            return name
    return "body"


def _cure(kind: str, field: str) -> str:
    match kind:
        case "missing":
            return f"Add `{field}`."
        case "extra_forbidden":
            return f"Remove `{field}`, or check its spelling."
        case "duplicate_key":
            return f"Give `{field}` once."
        case _:
            return f"Correct `{field}`."


def as_json(problem: Problem) -> bytes:
    """Body of type application/problem+json, without what is empty."""
    return json.dumps({key: value for key, value in problem.model_dump().items() if value not in ("", 0)}).encode()
