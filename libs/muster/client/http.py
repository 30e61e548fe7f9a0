"""Send one request to the gateway: bounded retries, and answers or typed errors."""

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from pydantic import BaseModel, ValidationError

from muster.client.errors import MusterError, UnavailableError, UnreachableError, refusal
from muster.client.tokens import TokenSource
from muster.schemas.views import Problem

ATTEMPTS_MAX = 8  # 7 s in all: a broker that lost a server has a new leader by then
RETRY_S_FIRST = 0.1
RETRY_S_MAX = 2.0
TIMEOUT_S = 10.0
CONNECTIONS_MAX = 64
RETRY_AFTER_S_MAX = 30.0  # upper bound of the wait that the gateway asks for
UNAUTHORIZED = 401
TOO_MANY = 429
_TRY_AGAIN = frozenset({TOO_MANY, 502, 503, 504})

BROKEN = (aiohttp.ClientError, OSError, TimeoutError)
"""Errors of a connection without a complete answer."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The number of attempts of a request, and the wait after the first failure in seconds (doubled each time)."""

    attempts: int = ATTEMPTS_MAX
    first_s: float = RETRY_S_FIRST
    most_s: float = RETRY_S_MAX

    def wait_s(self, failures: int, *, asked_s: float = 0.0) -> float:
        """Return the wait after this number of failures in a row. asked_s: the wait that the gateway asked for."""
        return max(min(self.first_s * 2.0 ** (failures - 1), self.most_s), min(asked_s, RETRY_AFTER_S_MAX))


class HttpTransport:
    """Sends requests to the gateway. Connections open with the first request, in its event loop."""

    def __init__(self, url: str, tokens: TokenSource, retry: Retry, *, ca_file: Path | None = None) -> None:
        self.url = url.rstrip("/")
        self.retry = retry
        self._tokens = tokens
        self._ca_file = ca_file
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Send a request and return the body of the answer.

        Every request is safe to repeat (a read, or guarded by an idempotency key). A rate limit (429) is raised
        only after all attempts. Raises RefusedError, UnreachableError (UnavailableError if the gateway answered).
        """
        sent = {"Content-Type": "application/json", **(headers or {})} if body is not None else dict(headers or {})
        failure: MusterError = UnreachableError("")
        token, renewed = await self._tokens.token(), False
        for attempt in range(1, self.retry.attempts + 1):
            asked_s = 0.0
            try:
                async with self._connections().request(
                    method,
                    self.url + path,
                    params=params,
                    data=body,
                    headers={**sent, **_bearing(token)},
                    allow_redirects=False,
                ) as answer:
                    status, content = answer.status, await answer.read()
            except BROKEN as error:
                failure = UnreachableError(f"{self.url} does not answer: {str(error) or type(error).__name__}")
            else:
                if 200 <= status < 300:
                    return content
                if status == UNAUTHORIZED and not renewed:
                    fresh, renewed = await self._tokens.token(refused=token), True
                    if fresh != token:
                        token = fresh
                        continue
                if status not in _TRY_AGAIN:
                    raise_for(status, content)
                failure, asked_s = _not_now(status, content)
            if attempt < self.retry.attempts:
                await asyncio.sleep(self.retry.wait_s(attempt, asked_s=asked_s))
        raise failure

    @asynccontextmanager
    async def listen(
        self, path: str, *, params: Mapping[str, str | int], silence_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield an endless answer in pieces as they arrive. silence_s: longest time between two pieces.

        Raises RefusedError, UnreachableError; one of BROKEN if the answer breaks off.
        """
        patience = aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT_S, sock_read=silence_s)
        token = await self._tokens.token()
        async with self._connections().get(
            self.url + path, params=params, timeout=patience, headers=_bearing(token), allow_redirects=False
        ) as answer:
            if answer.status == UNAUTHORIZED and await self._tokens.token(refused=token) != token:
                raise UnreachableError("the token was renewed")  # the caller tries again
            if answer.status != 200:
                raise_for(answer.status, await answer.read())
            yield answer.content.iter_any()

    def _connections(self) -> aiohttp.ClientSession:
        if self._session is None:
            trusted = True if self._ca_file is None else ssl.create_default_context(cafile=str(self._ca_file))
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=CONNECTIONS_MAX, ssl=trusted),
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


def own_key() -> dict[str, str]:
    """Return the idempotency header that makes all attempts of one call the same request."""
    return {"Idempotency-Key": os.urandom(16).hex()}


def sent(model: BaseModel) -> bytes:
    """Return the body of a request without unset fields, so that the server's defaults apply."""
    return model.model_dump_json(exclude_unset=True).encode()


def _bearing(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def raise_for(status: int, body: bytes) -> None:
    """Raise RefusedError for a 4xx status, UnavailableError or UnreachableError for any other."""
    problem = _problem(status, body)
    if 400 <= status < 500:
        raise refusal(problem)
    kind = UnreachableError if _told(body) is None else UnavailableError
    raise kind(f"{status} {problem.title}: {problem.detail}")


def _not_now(status: int, body: bytes) -> tuple[MusterError, float]:
    """Return the error of an answer that is retried, and the wait that the answer asks for."""
    told = _told(body)
    if status == TOO_MANY:
        problem = told or _problem(status, body)
        return refusal(problem), float(problem.retry_after_s)
    if told is None:
        return UnreachableError(_problem(status, body).detail or f"status {status}"), 0.0
    return UnavailableError(told.detail or f"status {status}"), 0.0


def _problem(status: int, body: bytes) -> Problem:
    told = _told(body)
    return told or Problem(title="Refused", status=status, detail=body[:200].decode(errors="replace"))


def _told(body: bytes) -> Problem | None:
    """Return the problem document, or None if a proxy answered instead of the gateway."""
    try:
        return Problem.model_validate(json.loads(body))
    except (ValueError, ValidationError):
        return None
