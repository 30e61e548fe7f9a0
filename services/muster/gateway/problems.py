"""Build refusals as RFC 9457 problem documents, which name the wrong field and what to do. Pure."""

import json
from collections.abc import Mapping
from typing import cast

from pydantic import ValidationError

from muster.schemas.views import Problem

RETRY_AFTER_S = 1
_DETAIL_MAX = 500
_KEY = "[key]"  # pydantic's mark that the key itself is wrong, not its value


class ProblemError(Exception):
    """A refusal of a request, or a failure to serve it; `problem` is the complete answer."""

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
        """Close the connection after the answer, because the rest of the request was not read."""


def unauthorised(detail: str) -> ProblemError:
    """Return a 401 refusal: the request is not authenticated."""
    return ProblemError(
        401, "Unauthorised", detail=detail, field="Authorization", cure="Send `Authorization: Bearer <token>`."
    )


def forbidden(detail: str, *, field: str = "", cure: str = "", holder: str = "") -> ProblemError:
    """Return a 403 refusal: the principal may not do this. holder: the job or team that would be affected, if any."""
    return ProblemError(403, "Forbidden", detail=detail, field=field, cure=cure, holder=holder)


def not_found(what: str, name: str, *, cure: str = "Check the name.") -> ProblemError:
    """Return a 404 refusal. what: the kind of resource."""
    return ProblemError(404, "Not found", detail=f"there is no {what} {name!r}", field=what, cure=cure)


def conflict(detail: str, *, field: str = "", cure: str = "", holder: str = "") -> ProblemError:
    """Return a 409 refusal: the request conflicts with the current state. holder: the job or team in the way, if
    any."""
    return ProblemError(409, "Conflict", detail=detail, field=field, cure=cure, holder=holder)


def too_large(detail: str, *, field: str, cure: str, close: bool = False) -> ProblemError:
    """Return a 413 refusal."""
    return ProblemError(413, "Too large", detail=detail, field=field, cure=cure, close=close)


def invalid(detail: str, *, field: str, cure: str = "") -> ProblemError:
    """Return a 422 refusal: the request was understood, but it can never be accepted."""
    return ProblemError(422, "Invalid request", detail=detail, field=field, cure=cure)


def timed_out(detail: str, *, field: str) -> ProblemError:
    """Return a 408 refusal: the request was not received completely."""
    return ProblemError(408, "Request timeout", detail=detail, field=field, cure="Send the request again.", close=True)


def too_many(detail: str, *, field: str, wait_s: int) -> ProblemError:
    """Return a 429 refusal: the request exceeds the limits; the same request may be sent again after `wait_s`."""
    return ProblemError(
        429,
        "Too many requests",
        detail=detail,
        field=field,
        cure=f"Send it again in {wait_s} s; `muster quota` shows your limits; an admin sets them (`access`).",
        retry_after_s=wait_s,
    )


def unavailable(detail: str) -> ProblemError:
    """Return a 503 refusal: unavailable now; nothing was lost, and the same request may be sent again."""
    return ProblemError(
        503, "Unavailable", detail=detail, cure="Send the same request again, with the same Idempotency-Key."
    )


def from_validation(error: ValidationError) -> ProblemError:
    """Return a refusal for the first error of a body: 400 if it is not JSON, else 422 with the path of the field."""
    first, *rest = error.errors(include_url=False, include_input=False, include_context=False)
    more = sum(other["loc"] != first["loc"][: len(other["loc"])] for other in rest)  # without those that follow
    detail = first["msg"][:_DETAIL_MAX] + (f" (and {more} more)" if more else "")
    if first["type"] == "json_invalid":
        return ProblemError(400, "Not JSON", detail=detail, field="body", cure="Send one JSON document.")
    field = ".".join(str(part) for part in first["loc"] if part != _KEY) or _named_in(detail)
    return invalid(detail, field=field, cure=_cure(first["type"], field))


def from_parameter(error: Mapping[str, object]) -> ProblemError:
    """Return a 422 refusal for a wrong parameter of path, query or header. error: as pydantic reports it; its `ctx`
    may hold a hint under `cure`."""
    field = str(cast("tuple[str | int, ...]", error["loc"])[-1])
    context = cast("Mapping[str, str]", error.get("ctx", {}))
    return invalid(str(error["msg"])[:_DETAIL_MAX], field=field, cure=context.get("cure") or _cure("", field))


def _named_in(message: str) -> str:
    """Return the field that a check over several fields names, in backquotes or before a colon; else `body`."""
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
    """Encode a problem as application/problem+json, without its empty fields."""
    return json.dumps({key: value for key, value in problem.model_dump().items() if value not in ("", 0)}).encode()
