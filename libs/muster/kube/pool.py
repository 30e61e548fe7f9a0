"""Connections to an API server, and pools that replace them by age: old ones close after their last use.

Watches have their own pool, because over HTTP/1.1 each occupies a connection for minutes.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol, cast
from urllib.parse import SplitResult, urlsplit

import aiohttp
from httptools import HttpParserError, HttpResponseParser

from muster.core.seeded import uniform
from muster.kube import bounds
from muster.kube.credentials import Credentials
from muster.kube.errors import KubeConfigError

_CONTINUES = 200
_RETRY_AFTER = b"retry-after"


class HttpConnectionError(OSError):
    """The connection broke, or the answer is not HTTP or too large."""


class Flow(Protocol):
    """The part of an asyncio transport that is used."""

    def write(self, data: bytes) -> None:
        """Send data."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer; `retry_after` is that header, "" without it."""

    status: int
    body: bytes
    retry_after: str = ""


class HttpConnection(asyncio.Protocol):
    """One HTTP/1.1 connection that sends one request at a time.

    A general client spends 90 us of CPU time on its own objects for each request, more than the rest of a binding costs
    Muster; httptools parses, as in the gateway's server. Watches, streamed pages and proxies use aiohttp.
    """

    def __init__(self, generation: int) -> None:
        self.generation = generation
        """Generation of the credentials with which it was opened."""
        self.is_open = False
        """Whether it can be used again."""
        self.idle_since_s = 0.0
        self._transport: Flow | None = None
        self._parser: HttpResponseParser | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._parts: list[bytes] = []
        self._bytes = 0
        self._retry_after = ""

    async def exchange(self, data: bytes) -> Answer:
        """Send a whole request and wait for the whole answer. On HttpConnectionError the connection is closed."""
        if not self.is_open or self._transport is None:
            raise HttpConnectionError("the server closed the connection")
        self._parser = HttpResponseParser(self)
        self._parts, self._bytes, self._retry_after = [], 0, ""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        try:
            return await self._answer
        except asyncio.CancelledError:
            self.close()  # no caller waits for the answer
            raise
        finally:
            self._answer = None

    def close(self) -> None:
        """Close the connection at once."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of the open connection."""
        self._transport = cast("Flow", transport)  # uvloop's over TLS is none of asyncio's classes
        self.is_open = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request in progress."""
        self.is_open = False
        self._fail(f"the connection broke off: {exc}" if exc else "the server closed the connection")

    def data_received(self, data: bytes) -> None:
        """Parse the answer's bytes."""
        if self._answer is None or self._answer.done() or self._parser is None:
            self.close()  # unrequested data would be taken for the next answer
            return
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._fail(f"the answer is not HTTP: {error}")
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep the Retry-After header."""
        if name.lower() == _RETRY_AFTER:
            self._retry_after = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        """Collect the body, up to BODY_BYTES_MAX."""
        self._bytes += len(body)
        if self._bytes > bounds.BODY_BYTES_MAX:
            self._fail(f"the answer is larger than {bounds.BODY_BYTES_MAX} bytes; list in pages")
            self.close()
            return
        self._parts.append(body)

    def on_message_complete(self) -> None:
        """Complete the request."""
        parser, answer = self._parser, self._answer
        assert parser is not None, "called by the parser"
        status = parser.get_status_code()
        if status < _CONTINUES or answer is None or answer.done():
            return
        if not parser.should_keep_alive():
            self.close()
        answer.set_result(Answer(status, b"".join(self._parts), self._retry_after))

    def _fail(self, why: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(HttpConnectionError(why))


class RequestPool:
    """A bounded number of connections for requests; the most recently used is reused first.

    A generation of connections has the same certificates and age.
    """

    def __init__(self, credentials: Credentials, *, connections_max: int, age_s_max: float, seed: int) -> None:
        self._credentials = credentials
        self._room = asyncio.Semaphore(connections_max)
        self._age_s_max = age_s_max
        self._seed = seed
        self._generation = 0
        self._until_s = 0.0
        self._tls: ssl.SSLContext | None = None
        self._idle: deque[HttpConnection] = deque()
        self._busy: set[HttpConnection] = set()
        self._renewing = asyncio.Lock()

    async def take(self) -> HttpConnection:
        """Return a connection for one exchange; waits while all are in use. Raises OSError, TimeoutError,
        KubeConfigError.

        The caller returns it with `give` in any case.
        """
        await self._room.acquire()
        try:
            connection = await self._taken()
        except BaseException:
            self._room.release()
            raise
        self._busy.add(connection)
        return connection

    def give(self, connection: HttpConnection) -> None:
        """Return a connection after its exchange."""
        self._busy.discard(connection)
        self._room.release()
        if not self._is_good(connection):
            connection.close()
            return
        connection.idle_since_s = asyncio.get_running_loop().time()
        self._idle.append(connection)

    def renew(self) -> None:
        """Open new connections from the next request on: after a 401, or when the server moved."""
        self._until_s = 0.0

    def close(self) -> None:
        """Close all connections, including those in use."""
        for connection in (*self._idle, *self._busy):
            connection.close()
        self._idle.clear()
        self._until_s = 0.0

    async def _taken(self) -> HttpConnection:
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._until_s:
            await self._begin()
        while self._idle:
            connection = self._idle.pop()
            if self._is_good(connection) and now_s - connection.idle_since_s < bounds.KEEPALIVE_S:
                return connection
            connection.close()
        return await self._opened()

    def _is_good(self, connection: HttpConnection) -> bool:
        return connection.is_open and connection.generation == self._generation

    async def _begin(self) -> None:
        """Begin a new generation; idle connections close now, those in use when they are returned."""
        async with self._renewing:
            now_s = asyncio.get_running_loop().time()
            if now_s < self._until_s:
                return  # another request began it meanwhile
            self._tls = await self._credentials.tls()
            self._generation += 1
            spread = bounds.CONNECTION_AGE_JITTER * uniform(self._seed, "age", self._generation)
            self._until_s = now_s + self._age_s_max * (1.0 - spread)
            while self._idle:
                self._idle.pop().close()

    async def _opened(self) -> HttpConnection:
        server, generation = urlsplit(self._credentials.url), self._generation
        if not server.hostname:
            raise KubeConfigError(f"{self._credentials.url!r} has no host; it must begin with https:// and a host")
        async with asyncio.timeout(bounds.CONNECT_S):
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: HttpConnection(generation),
                server.hostname,
                _port(server),
                ssl=self._tls,
                server_hostname=None if self._tls is None else self._credentials.server_name or server.hostname,
            )
        return connection


def _port(server: SplitResult) -> int:
    return server.port or (443 if server.scheme == "https" else 80)


@dataclass
class _Generation:
    """One session and the number of its users."""

    session: aiohttp.ClientSession
    until_s: float
    users: int = 0
    retired: bool = field(default=False)


class SessionPool:
    """A bounded set of aiohttp connections to one server, for streams."""

    def __init__(
        self, credentials: Credentials, *, user_agent: str, connections_max: int, age_s_max: float, seed: int
    ) -> None:
        self._credentials = credentials
        self._user_agent = user_agent
        self._connections_max = connections_max
        self._age_s_max = age_s_max
        self._seed = seed
        self._opened = 0
        self._current: _Generation | None = None
        self._old: list[_Generation] = []
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[aiohttp.ClientSession]:
        """Yield a session for one request and its answer. Raises KubeConfigError."""
        generation = self._current
        if generation is None or asyncio.get_running_loop().time() >= generation.until_s:
            generation = await self._next()
        generation.users += 1
        try:
            yield generation.session
        finally:
            generation.users -= 1
            if generation.retired and not generation.users:
                self._old.remove(generation)
                await generation.session.close()

    async def renew(self) -> None:
        """Open new connections from the next request on: after a 401, or when the server moved."""
        async with self._opening:
            await self._retire()

    async def close(self) -> None:
        """Close all connections, including those in use."""
        await self._retire()
        for generation in tuple(self._old):  # a request that ends meanwhile removes its own
            await generation.session.close()

    async def _next(self) -> _Generation:
        async with self._opening:
            now_s = asyncio.get_running_loop().time()
            if self._current is not None and now_s < self._current.until_s:
                return self._current  # another request opened it meanwhile
            tls = await self._credentials.tls()
            await self._retire()
            self._opened += 1
            age_s = self._age_s_max * (1.0 - bounds.CONNECTION_AGE_JITTER * uniform(self._seed, "age", self._opened))
            self._current = _Generation(
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(
                        limit=self._connections_max,
                        ssl=tls if tls is not None else True,
                        keepalive_timeout=bounds.KEEPALIVE_S,
                    ),
                    # gzip would cost the API server 10 ms of CPU per MB of a list
                    headers={"User-Agent": self._user_agent, "Accept-Encoding": "identity"},
                    cookie_jar=aiohttp.DummyCookieJar(),
                    read_bufsize=bounds.READ_BYTES,
                ),
                until_s=now_s + age_s,
            )
            return self._current

    async def _retire(self) -> None:
        generation, self._current = self._current, None
        if generation is None:
            return
        generation.retired = True
        if generation.users:
            self._old.append(generation)
        else:
            await generation.session.close()
