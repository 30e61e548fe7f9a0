"""HTTP requests to a CDI manager: single requests, concurrent requests and polling, with errors classed by effect.

The class of an error determines what the caller may do next, so it depends on the possible effect, not on the cause: a
request that was not sent, or that only reads, has changed nothing (`FabricUnavailableError`); one that was sent and not
answered may have changed anything (`FabricTimeoutError`); 500, 502 and unknown codes for a change may hide work that
was started (`FabricNonsenseError`); 503 and the temporary ones of 4xx (`LATER`) mean that no work was started; the rest
of 4xx are refusals (`FabricRefusedError`). Redirects are not followed: neither a token nor an order goes to a host that
is not configured.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from muster.fabric import bounds
from muster.fabric.driver import (
    FabricError,
    FabricNonsenseError,
    FabricRefusedError,
    FabricTimeoutError,
    FabricUnavailableError,
)

LATER = frozenset(
    {
        httpx.codes.REQUEST_TIMEOUT,
        httpx.codes.CONFLICT,
        httpx.codes.LOCKED,
        httpx.codes.TOO_MANY_REQUESTS,
        httpx.codes.SERVICE_UNAVAILABLE,
    }
)
"""Status codes of a temporary refusal: another operation runs, or the request was not accepted. Nothing was changed."""


class Answer(BaseModel):
    """A response of a manager. Unknown fields are ignored, because managers add fields."""

    model_config = ConfigDict(extra="ignore", frozen=True)


AnswerT = TypeVar("AnswerT", bound=Answer)


class Tokens(Protocol):
    """A source of bearer tokens for requests."""

    async def token(self, *, until: float) -> str:
        """Return a valid token. Raises FabricError."""
        ...

    def reject(self, token: str) -> None:
        """Discard a token that the manager rejected: the next call returns another one."""
        ...


class ManagerHttp:
    """HTTP client for one base address. until: deadline of a request by the clock of the event loop."""

    def __init__(self, url: str, client: httpx.AsyncClient, tokens: Tokens | None = None) -> None:
        self._base = url.rstrip("/")
        self._client = client
        self._tokens = tokens

    async def read(self, path: str, *, until: float, params: Mapping[str, str] | None = None, trace: str = "") -> bytes:
        """Send a GET. Raises FabricRefusedError, FabricUnavailableError, FabricNonsenseError."""
        return await self._send("GET", path, until=until, params=params, trace=trace, changes=False)

    async def change(
        self,
        method: str,
        path: str,
        *,
        until: float,
        body: JsonValue = None,
        params: Mapping[str, str] | None = None,
        trace: str = "",
    ) -> bytes:
        """Send a POST, PATCH or DELETE once. Raises FabricError by its possible effect."""
        return await self._send(method, path, until=until, params=params, trace=trace, body=body, changes=True)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _send(
        self,
        method: str,
        path: str,
        *,
        until: float,
        params: Mapping[str, str] | None,
        trace: str,
        changes: bool,
        body: JsonValue = None,
    ) -> bytes:
        for left in reversed(range(bounds.TOKEN_RENEWALS_MAX + 1)):
            token = await self._tokens.token(until=until) if self._tokens is not None else ""
            headers = {"traceparent": trace} if trace else {}
            if token:
                headers["Authorization"] = f"Bearer {token}"
            request = self._client.build_request(
                method, f"{self._base}/{path}", params=params or None, headers=headers, json=body if changes else None
            )
            status, answered = await exchange(self._client, request, until=until, changes=changes)
            if status == httpx.codes.UNAUTHORIZED and self._tokens is not None and left:
                self._tokens.reject(token)  # nothing was changed: a 401 comes before any work
                continue
            if not httpx.codes.is_success(status):
                raise failure_of(status, answered, what=f"{method} {request.url.path}", changes=changes)
            return answered
        raise AssertionError("the last round returns or raises")


async def exchange(
    client: httpx.AsyncClient, request: httpx.Request, *, until: float, changes: bool
) -> tuple[int, bytes]:
    """Return status and body of a response of any status. Raises FabricError if no complete response came."""
    what = f"{request.method} {request.url.path}"
    try:
        async with asyncio.timeout_at(until):
            response = await client.send(request, stream=True)
            try:
                return response.status_code, await _body(response, what)
            finally:
                await response.aclose()
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol) as error:
        raise FabricUnavailableError(f"{what}: the manager cannot be reached: {_said(error)}") from error
    except (TimeoutError, httpx.TimeoutException) as error:
        raise _unknown(f"{what}: no answer in time", changes=changes) from error
    except (httpx.NetworkError, httpx.ProtocolError) as error:
        raise _unknown(f"{what}: the connection broke: {_said(error)}", changes=changes) from error
    except httpx.HTTPError as error:
        raise FabricNonsenseError(f"{what}: {_said(error)}") from error


def failure_of(status: int, body: bytes, *, what: str, changes: bool) -> FabricError:
    """Return the error for an unsuccessful response; the module's docstring has the classes."""
    code, message = manager_words(body)
    said = f"{what}: {status}{f' {code}' if code else ''}{f': {message}' if message else ''}"
    if httpx.codes.is_redirect(status):
        return FabricRefusedError(f"{said}: redirects are not followed; set the fabric's url to where the API is")
    if status in LATER:
        return FabricUnavailableError(said)
    if httpx.codes.is_client_error(status):
        return FabricRefusedError(said)
    if not changes:
        return FabricUnavailableError(said)
    if status == httpx.codes.GATEWAY_TIMEOUT:
        return FabricTimeoutError(said)
    return FabricNonsenseError(f"{said}: work may have been started")


def parsed(model: type[AnswerT], body: bytes, *, what: str) -> AnswerT:
    """Parse a response. Raises FabricNonsenseError with the first field that does not fit."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise _nonsense(error, what) from error


def parsed_part(model: type[AnswerT], said: JsonValue, *, what: str) -> AnswerT:
    """Parse a part of a response that was read before. Raises FabricNonsenseError as `parsed` does."""
    try:
        return model.model_validate(said)
    except ValidationError as error:
        raise _nonsense(error, what) from error


def segment(name: str, *, field: str) -> str:
    """Return a name as one segment of a path. Raises FabricRefusedError for a name that would change the path."""
    if name in ("", ".", ".."):
        raise FabricRefusedError(f"{field}: {name!r} is not a valid name; check the node's machine and the device's id")
    return quote(name, safe="")


class _Detail(Answer):
    code: str | int | None = None
    message: str | None = None


class _ErrorAnswer(Answer):
    """Error body of Fsas (detail), NEC (code, message), Redfish (error), OpenID Connect (error, error_description)."""

    detail: _Detail | str | None = None
    error: _Detail | str | None = None
    code: str | int | None = None
    message: str | None = None
    error_description: str | None = None


def manager_words(body: bytes) -> tuple[str, str]:
    """Return the manager's error code and message, shortened; ("", "") if the body has none that can be read."""
    try:
        said = _ErrorAnswer.model_validate_json(body)
    except ValidationError:
        return "", ""
    code, message = said.code, said.message or said.error_description
    for part in (said.detail, said.error):
        if isinstance(part, _Detail):
            code, message = code or part.code, message or part.message
        elif part is not None:
            code, message = (code or part, message) if message else (code, part)
    return str(code or "")[: bounds.ERROR_CHARS_MAX], (message or "")[: bounds.ERROR_CHARS_MAX]


async def _body(response: httpx.Response, what: str) -> bytes:
    """Return the whole body. Raises FabricNonsenseError as soon as it is known to be too large."""
    kept = bytearray()
    async for chunk in response.aiter_raw():  # undecoded: a small compressed answer can be a giant one
        kept += chunk
        if len(kept) > bounds.BODY_BYTES_MAX:
            raise FabricNonsenseError(f"{what}: the answer is larger than {bounds.BODY_BYTES_MAX} bytes")
    return bytes(kept)


def _nonsense(error: ValidationError, what: str) -> FabricNonsenseError:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "body"
    return FabricNonsenseError(f"{what}: {where}: {first['msg']}"[: bounds.ERROR_CHARS_MAX])


def _unknown(message: str, *, changes: bool) -> FabricError:
    return FabricTimeoutError(message) if changes else FabricUnavailableError(message)


def _said(error: Exception) -> str:
    return (str(error) or type(error).__name__)[: bounds.ERROR_CHARS_MAX]


ItemT = TypeVar("ItemT")
FoundT = TypeVar("FoundT")


async def each(items: Sequence[ItemT], ask: Callable[[ItemT], Awaitable[FoundT]]) -> list[FoundT]:
    """Call `ask` for all items concurrently; return the results in order. The first error cancels the rest."""
    found: list[FoundT] = []
    for start in range(0, len(items), bounds.SURVEY_PARALLEL):
        asked = [asyncio.ensure_future(ask(item)) for item in items[start : start + bounds.SURVEY_PARALLEL]]
        try:
            found.extend(await asyncio.gather(*asked))
        finally:
            for one in asked:
                one.cancel()
    return found


async def poll(
    look: Callable[[], Awaitable[FoundT | None]], *, until: float, what: str, poll_s: float = bounds.POLL_S_MIN
) -> FoundT:
    """Call `look` until it returns a result, and return that. poll_s: delay before the first call.

    The work was started before, so its effect is unknown until it is seen: a failed call is repeated, and a refused one
    (the manager no longer knows the work) is invalid. Raises FabricTimeoutError, FabricNonsenseError.
    """
    loop = asyncio.get_running_loop()
    seen = "it goes on"
    while (left_s := until - loop.time()) > 0:
        await asyncio.sleep(min(poll_s, left_s))
        try:
            found = await look()
        except FabricUnavailableError as error:
            seen = str(error)
        except FabricRefusedError as error:
            raise FabricNonsenseError(f"{what}: begun, and then: {error}") from error
        else:
            if found is not None:
                return found
            seen = "it goes on"
        poll_s = min(poll_s * bounds.POLL_GROWTH, bounds.POLL_S_MAX)
    raise FabricTimeoutError(f"{what}: not over in time: {seen}")
