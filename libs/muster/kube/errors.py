"""Errors of the API server, by what the caller can do next, and when a request is retried.

Codes and reasons are those of `meta/v1.Status`. A message has the request, the server's message and a hint.
"""

from dataclasses import dataclass
from http import HTTPStatus

from pydantic_core import from_json

from muster.core.seeded import uniform
from muster.kube.bounds import ATTEMPTS_MAX, BACKOFF_S_MAX, BACKOFF_S_MIN, ERROR_CHARS_MAX, RETRY_AFTER_S_MAX
from muster.kube.objects import at, integer, objects, text

READING = frozenset({"get", "list", "watch"})


@dataclass(frozen=True, slots=True)
class Asked:
    """The request: an RBAC verb, the resource as in permissions ("pods/binding"), and the object."""

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        named = f" {self.name}" if self.name else ""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{named}{where}"


class KubeError(Exception):
    """Any failure of a request to an API server. `code` is HTTP's, 0 without an answer; `reason` the Status'."""

    def __init__(self, message: str, *, asked: Asked, code: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.asked = asked
        self.code = code
        self.reason = reason


class KubeConfigError(Exception):
    """The kubeconfig file or the in-cluster configuration cannot be used; the message names the field or file."""


class NotFoundError(KubeError):
    """The object does not exist, or its kind is not served in this version (`unserved`)."""

    def __init__(self, message: str, *, asked: Asked, code: int = 0, reason: str = "", unserved: bool = False) -> None:
        super().__init__(message, asked=asked, code=code, reason=reason)
        self.unserved = unserved


class ConflictError(KubeError):
    """The object changed since it was read, or a precondition failed: read it again and decide again."""


class AlreadyExistsError(KubeError):
    """An object of this name exists, from a former attempt or another owner; compare uid and owner."""


class GoneError(KubeError):
    """The resourceVersion or continue token has expired: list again."""


class UnauthorizedError(KubeError):
    """The server rejected the credentials: they are wrong or expired."""


class ForbiddenError(KubeError):
    """A permission is missing: `asked` has verb and resource."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One validation error: a JSON path and a message."""

    field: str
    message: str


class InvalidError(KubeError):
    """The object (422) or the request (other 4xx codes) is invalid: repeating it does not help."""

    def __init__(
        self, message: str, *, asked: Asked, code: int = 0, reason: str = "", causes: tuple[Cause, ...] = ()
    ) -> None:
        super().__init__(message, asked=asked, code=code, reason=reason)
        self.causes = causes


class TooManyRequestsError(KubeError):
    """Rejected by flow control, or by a disruption budget; nothing was changed. Try after `retry_after_s`."""

    def __init__(
        self, message: str, *, asked: Asked, code: int = 429, reason: str = "", retry_after_s: float, by_budget: bool
    ) -> None:
        super().__init__(message, asked=asked, code=code, reason=reason)
        self.retry_after_s = retry_after_s
        self.by_budget = by_budget


class UnavailableError(KubeError):
    """No usable answer. `effect_unknown`: a change was sent and may have been made; check before repeating it."""

    def __init__(
        self,
        message: str,
        *,
        asked: Asked,
        code: int = 0,
        reason: str = "",
        retry_after_s: float = 0.0,
        effect_unknown: bool = False,
    ) -> None:
        super().__init__(message, asked=asked, code=code, reason=reason)
        self.retry_after_s = retry_after_s
        self.effect_unknown = effect_unknown


def error_of(asked: Asked, code: int, body: bytes, *, retry_after: str = "") -> KubeError:
    """Return the error of an unsuccessful answer, whose body may be a Status."""
    status = _status(body)
    reason = text(status, "reason")
    said = text(status, "message") or body[:ERROR_CHARS_MAX].decode(errors="replace").strip()
    message = f"{asked}: {code}{f' {reason}' if reason else ''}: {said or 'no reason given'}"[:ERROR_CHARS_MAX]
    after_s = _seconds(retry_after) or float(integer(status, "details", "retryAfterSeconds"))
    if code == HTTPStatus.NOT_FOUND:
        unserved = not text(status, "details", "kind")  # a Status of an object names its kind
        return NotFoundError(message, asked=asked, code=code, reason=reason, unserved=unserved)
    if code == HTTPStatus.CONFLICT:
        kind = AlreadyExistsError if reason == "AlreadyExists" else ConflictError
        return kind(message, asked=asked, code=code, reason=reason)
    if code == HTTPStatus.GONE:
        return GoneError(f"{message}; list again", asked=asked, code=code, reason=reason)
    if code == HTTPStatus.UNAUTHORIZED:
        return UnauthorizedError(
            f"{message}; check the token or client certificate of the kubeconfig", asked=asked, code=code, reason=reason
        )
    if code == HTTPStatus.FORBIDDEN:
        return ForbiddenError(f"{message}; {_permission(asked)}", asked=asked, code=code, reason=reason)
    if code == HTTPStatus.TOO_MANY_REQUESTS:
        causes = [text(cause, "reason") for cause in objects(status, "details", "causes")]
        return TooManyRequestsError(
            message, asked=asked, reason=reason, retry_after_s=after_s or 1.0, by_budget="DisruptionBudget" in causes
        )
    if code >= HTTPStatus.INTERNAL_SERVER_ERROR or code == HTTPStatus.REQUEST_TIMEOUT:
        return UnavailableError(
            message,
            asked=asked,
            code=code,
            reason=reason,
            retry_after_s=after_s,
            effect_unknown=asked.verb not in READING and not _turned_away(code, after_s),
        )
    return InvalidError(message, asked=asked, code=code, reason=reason, causes=_causes(status))


def _turned_away(code: int, after_s: float) -> bool:
    """Return whether the server refused before any change: one that starts or stops says 503 with a Retry-After."""
    return code == HTTPStatus.SERVICE_UNAVAILABLE and after_s > 0


def _permission(asked: Asked) -> str:
    where = f"a Role in namespace {asked.namespace}" if asked.namespace else "a ClusterRole"
    return f"grant verb {asked.verb!r} on {asked.resource!r} in {where} bound to this user"


def _status(body: bytes) -> object:
    try:
        return from_json(body)
    except ValueError:  # proxies and load balancers answer in HTML
        return None


def _causes(status: object) -> tuple[Cause, ...]:
    found = objects(status, "details", "causes")
    return tuple(Cause(field=text(cause, "field"), message=text(cause, "message")) for cause in found)


def _seconds(retry_after: str) -> float:
    """Parse a Retry-After in seconds; the date form, which the API server does not use, is ignored."""
    return min(float(retry_after), RETRY_AFTER_S_MAX) if retry_after.isdecimal() else 0.0


def status_error(asked: Asked, status: object) -> KubeError:
    """Return the error in the object of a watch's ERROR event."""
    code = integer(status, "code", default=int(HTTPStatus.INTERNAL_SERVER_ERROR))
    reason, said = text(status, "reason"), text(status, "message")
    message = f"{asked}: {code} {reason}: {said}"[:ERROR_CHARS_MAX]
    if code == HTTPStatus.GONE or reason == "Expired":
        return GoneError(f"{message}; list again", asked=asked, code=code, reason=reason)
    after_s = float(integer(at(status, "details"), "retryAfterSeconds"))
    return UnavailableError(message, asked=asked, code=code, reason=reason, retry_after_s=after_s)


def wait_s(error: KubeError, attempt: int, *, seed: int, attempts_max: int = ATTEMPTS_MAX) -> float | None:
    """Return the seconds until a failed request is repeated, None if it is not. The first `attempt` is 1.

    A change with an unknown effect is never repeated: only the caller knows what to check. The caller also waits for
    evictions that a disruption budget refuses.
    """
    if attempt >= attempts_max:
        return None
    if isinstance(error, UnauthorizedError):
        return 0.0 if attempt == 1 else None  # once, with credentials that are read again
    if isinstance(error, TooManyRequestsError):
        return None if error.by_budget else backoff_s(attempt, seed=seed, at_least_s=error.retry_after_s)
    if isinstance(error, UnavailableError) and not error.effect_unknown:
        return backoff_s(attempt, seed=seed, at_least_s=error.retry_after_s)
    return None


def backoff_s(
    attempt: int, *, seed: int, at_least_s: float = 0.0, first_s: float = BACKOFF_S_MIN, max_s: float = BACKOFF_S_MAX
) -> float:
    """Return an exponential backoff with jitter in its upper half, so that clients do not return together."""
    full_s = min(max_s, first_s * 2.0 ** min(attempt - 1, 30))
    spread = uniform(seed, "kube backoff", attempt)
    return at_least_s + full_s * (0.5 + 0.5 * spread)
