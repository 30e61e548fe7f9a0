"""Requests over HTTP with an API server's errors and bounded retries; see `Transport`."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlencode, urlsplit

import aiohttp
from pydantic_core import from_json, to_json

from muster.kube import bounds
from muster.kube.bounds import LINE_BYTES_MAX, READ_BYTES
from muster.kube.credentials import Credentials
from muster.kube.errors import Asked, KubeConfigError, KubeError, UnauthorizedError, UnavailableError, error_of, wait_s
from muster.kube.objects import JsonObject, is_object
from muster.kube.pool import RequestPool, SessionPool

JSON = "application/json"


class Lines:
    """Complete lines of one answer, in batches as they arrive. Bounded: one read and one unfinished line.

    After `silence_s` without a byte it fails, which is the only sign of a half-open connection.
    """

    def __init__(self, response: aiohttp.ClientResponse, *, asked: Asked, silence_s: float) -> None:
        self._content = response.content
        self._asked = asked
        self._silence_s = silence_s

    async def batches(self) -> AsyncIterator[list[bytes]]:
        """Yield batches, never empty. Raises UnavailableError if the answer breaks off or no byte arrives in time."""
        unfinished = bytearray()
        while chunk := await self._read():
            await asyncio.sleep(0)  # a full buffer is read without waiting: let other tasks run
            unfinished += chunk
            end = unfinished.rfind(b"\n")
            if len(unfinished) - end > LINE_BYTES_MAX:
                raise UnavailableError(
                    f"{self._asked}: a line is longer than {LINE_BYTES_MAX} bytes", asked=self._asked
                )
            if end < 0:
                continue
            complete = bytes(memoryview(unfinished)[:end])
            del unfinished[: end + 1]
            yield complete.split(b"\n")
        if unfinished:
            yield [bytes(unfinished)]

    async def _read(self) -> bytes:
        try:
            async with asyncio.timeout(self._silence_s):
                return await self._content.read(READ_BYTES)
        except TimeoutError as error:
            raise UnavailableError(
                f"{self._asked}: no byte in {self._silence_s:g} s; the connection may be half open", asked=self._asked
            ) from error
        except aiohttp.ClientError as error:
            raise UnavailableError(f"{self._asked}: the answer broke off: {error}", asked=self._asked) from error


def no_answer(asked: Asked, error: Exception, *, sent: bool) -> KubeError:
    """Return the error of a request without an answer. `sent`: the server may have received it."""
    said = str(error) or type(error).__name__
    changes = asked.verb not in {"get", "list", "watch"}
    unknown = sent and changes
    hint = "the change may have been applied: check before repeating it" if unknown else "no change was applied"
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError | ssl.SSLError):
        hint = "check certificate-authority, tls-server-name and the server's address in the kubeconfig"
    return UnavailableError(
        f"{asked}: the API server cannot be reached: {said}; {hint}", asked=asked, effect_unknown=unknown
    )


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `path` has no query, `body` is sent as JSON, `asked` describes it in errors."""

    method: str
    path: str
    asked: Asked
    query: Mapping[str, str] = field(default_factory=dict)
    body: JsonObject | list[JsonObject] | None = None
    accept: str = JSON
    content_type: str = JSON
    timeout_s: float = bounds.REQUEST_S

    @property
    def target(self) -> str:
        """Return path and query."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


class Transport:
    """Sends requests to one server. Redirects are not followed, so that a token reaches only the configured server."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        user_agent: str,
        seed: int,
        connections_max: int,
        watches_max: int,
        connection_age_s_max: float,
        attempts_max: int,
    ) -> None:
        self._credentials = credentials
        self._seed = seed
        self._attempts_max = attempts_max
        self._sessions, self._watches = (
            SessionPool(
                credentials,
                user_agent=user_agent,
                connections_max=most,
                age_s_max=connection_age_s_max,
                seed=seed + number,
            )
            for number, most in enumerate((connections_max, watches_max))
        )
        self._requests = RequestPool(
            credentials, connections_max=connections_max, age_s_max=connection_age_s_max, seed=seed
        )
        self._user_agent = user_agent
        self.sent = 0
        """Requests sent, including retries and watches."""

    async def close(self) -> None:
        """Close every connection, including those of running watches."""
        self._requests.close()
        await self._sessions.close()
        await self._watches.close()

    async def json(self, request: Request) -> JsonObject:
        """Send a request with retries and return the answer's object. Raises KubeError, KubeConfigError."""
        data = None if request.body is None else to_json(request.body)
        attempt = 1
        while True:
            try:
                return _parsed(await self._once(request, data), request.asked)
            except KubeError as error:
                wait = wait_s(error, attempt, seed=self._seed + self.sent, attempts_max=self._attempts_max)
                if wait is None:
                    raise
                if isinstance(error, UnauthorizedError):
                    self._credentials.reject()
                    self._requests.renew()
                    await self._sessions.renew()
            attempt += 1
            await asyncio.sleep(wait)

    @asynccontextmanager
    async def stream(self, request: Request, *, silence_s: float, watching: bool) -> AsyncIterator[Lines]:
        """Stream an answer by line. Sent once; `watching` uses the pool of watches. Raises KubeError, KubeConfigError.

        `silence_s` (see `Lines`) also limits the wait for the answer.
        """
        pool = self._watches if watching else self._sessions
        async with pool.session() as session:
            headers = await self._headers(request)
            self.sent += 1
            try:
                async with asyncio.timeout(silence_s):
                    response = await session.get(
                        self._credentials.url + request.target,
                        headers=headers,
                        timeout=aiohttp.ClientTimeout(total=None, sock_connect=bounds.CONNECT_S),
                        allow_redirects=False,
                        proxy=self._credentials.proxy,
                        server_hostname=self._credentials.server_name,
                    )
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise no_answer(request.asked, error, sent=False) from error
            try:
                if response.status == HTTPStatus.UNAUTHORIZED:
                    self._credentials.reject()  # the next request reads them again
                    await pool.renew()
                if response.status != HTTPStatus.OK:
                    raise await self._failure(request, response)
                yield Lines(response, asked=request.asked, silence_s=silence_s)
            finally:
                response.close()  # not reused: the rest of a watch is never read

    async def _once(self, request: Request, data: bytes | None) -> bytes:
        """Send once and return the answer's body."""
        if self._credentials.proxy is not None:
            return await self._through_proxy(request, data)
        head = _head(request, await self._headers(request), url=self._credentials.url, length=len(data or b""))
        self.sent += 1
        is_sent = False
        try:
            async with asyncio.timeout(request.timeout_s):
                connection = await self._requests.take()
                try:
                    is_sent = True
                    answer = await connection.exchange(head + data if data else head)
                finally:
                    self._requests.give(connection)
        except (OSError, TimeoutError) as error:
            raise no_answer(request.asked, error, sent=is_sent) from error
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise error_of(request.asked, answer.status, answer.body, retry_after=answer.retry_after)
        return answer.body

    async def _through_proxy(self, request: Request, data: bytes | None) -> bytes:
        async with self._sessions.session() as session:
            headers = await self._headers(request)
            self.sent += 1
            try:
                async with session.request(
                    request.method,
                    self._credentials.url + request.target,
                    data=data,
                    headers=headers,
                    timeout=aiohttp.ClientTimeout(total=request.timeout_s, sock_connect=bounds.CONNECT_S),
                    allow_redirects=False,
                    proxy=self._credentials.proxy,
                    server_hostname=self._credentials.server_name,
                ) as response:
                    if response.status >= HTTPStatus.MULTIPLE_CHOICES:
                        raise await self._failure(request, response)
                    return await _whole(response, request.asked)
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                raise no_answer(request.asked, error, sent=False) from error
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise no_answer(request.asked, error, sent=True) from error

    async def _failure(self, request: Request, response: aiohttp.ClientResponse) -> KubeError:
        try:
            async with asyncio.timeout(request.timeout_s):
                said = await response.content.read(bounds.LINE_BYTES_MAX)
        except (aiohttp.ClientError, TimeoutError):
            said = b""  # the code is enough
        return error_of(request.asked, response.status, said, retry_after=response.headers.get("Retry-After", ""))

    async def _headers(self, request: Request) -> dict[str, str]:
        headers = {"Accept": request.accept, "User-Agent": self._user_agent}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        if authorization := await self._credentials.authorization():
            headers["Authorization"] = authorization
        return headers


def _head(request: Request, headers: Mapping[str, str], *, url: str, length: int) -> bytes:
    """Return the request head. Raises KubeConfigError for credentials that are not valid in a header."""
    server = urlsplit(url)
    lines = [f"{request.method} {server.path}{request.target} HTTP/1.1", f"Host: {server.netloc}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if length or request.method not in ("GET", "DELETE"):
        lines.append(f"Content-Length: {length}")
    if any("\r" in line or "\n" in line for line in lines):
        raise KubeConfigError("the token contains a line break; check the file or plugin that provides it")
    lines += ["", ""]
    return "\r\n".join(lines).encode("latin-1", errors="replace")


async def _whole(response: aiohttp.ClientResponse, asked: Asked) -> bytes:
    kept = bytearray()
    async for chunk in response.content.iter_any():
        kept += chunk
        if len(kept) > bounds.BODY_BYTES_MAX:
            raise UnavailableError(
                f"{asked}: the answer is larger than {bounds.BODY_BYTES_MAX} bytes; list in pages", asked=asked
            )
    return bytes(kept)


def _parsed(said: bytes, asked: Asked) -> JsonObject:
    try:
        parsed: object = from_json(said)
    except ValueError as error:
        raise UnavailableError(f"{asked}: the answer is not JSON: {error}", asked=asked) from error
    if not is_object(parsed):
        raise UnavailableError(f"{asked}: the answer is not a JSON object", asked=asked)
    return parsed
