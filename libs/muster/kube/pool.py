"""Connections to an API server, and pools of them that grow old: new ones take over, old ones go after their last use.

Watches have a pool of their own, since over HTTP/1.1 each holds a connection for minutes.
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
    """The connection broke off, or the answer is not HTTP, or is too large."""


class Flow(Protocol):
    """What is asked of a transport."""

    def write(self, data: bytes) -> None:
        """Send it."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """status: of HTTP. retry_after: that header, "" without."""

    status: int
    body: bytes
    retry_after: str = ""


class HttpConnection(asyncio.Protocol):
    """One connection, over which requests go one after the other: HTTP/1.1 without what it does not need.

    A general client spends 90 us of processor time on its own objects for each request, which is more than all else
    that a binding costs Muster; the parsing is httptools', as in the gateway's server. Watches, pages that are streamed
    and proxies are left to aiohttp.
    generation: of the credentials that it was opened with. is_open: whether it may be used again.
    """

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.is_open = False
        self.idle_since_s = 0.0
        self._transport: Flow | None = None
        self._parser: HttpResponseParser | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._parts: list[bytes] = []
        self._bytes = 0
        self._retry_after = ""

    async def exchange(self, data: bytes) -> Answer:
        """Send a whole request and wait for its whole answer. Raises HttpConnectionError, and closes the connection."""
        if not self.is_open or self._transport is None:
            raise HttpConnectionError("the server closed the connection")
        self._parser = HttpResponseParser(self)
        self._parts, self._bytes, self._retry_after = [], 0, ""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        try:
            return await self._answer
        except asyncio.CancelledError:
            self.close()  # the answer, when it comes, is nobody's
            raise
        finally:
            self._answer = None

    def close(self) -> None:
        """Close it, whatever is under way."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast("Flow", transport)  # uvloop's over TLS is none of asyncio's classes
        self.is_open = True

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self.is_open = False
        self._fail(f"the connection broke off: {exc}" if exc else "the server closed the connection")

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._answer is None or self._answer.done() or self._parser is None:
            self.close()  # nobody asked: whatever follows would be taken for the answer to something else
            return
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._fail(f"the answer is no HTTP: {error}")
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        """See `HttpResponseParser`."""
        if name.lower() == _RETRY_AFTER:
            self._retry_after = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        """See `HttpResponseParser`."""
        self._bytes += len(body)
        if self._bytes > bounds.BODY_BYTES_MAX:
            self._fail(f"the answer is larger than {bounds.BODY_BYTES_MAX} bytes; ask for pages")
            self.close()
            return
        self._parts.append(body)

    def on_message_complete(self) -> None:
        """See `HttpResponseParser`."""
        parser, answer = self._parser, self._answer
        assert parser is not None, "a parser calls"
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
    """A bounded number of connections for requests, the most recently used first.

    A generation shares certificates, as they were read when it began, and its age.
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
        """A connection for one exchange; waits while all are in use. Raises OSError, TimeoutError, KubeConfigError.

        To be given back, whatever comes of it.
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
        """The exchange is over."""
        self._busy.discard(connection)
        self._room.release()
        if not self._is_good(connection):
            connection.close()
            return
        connection.idle_since_s = asyncio.get_running_loop().time()
        self._idle.append(connection)

    def renew(self) -> None:
        """Let the next request open new connections: after a 401, or when the server moved."""
        self._until_s = 0.0

    def close(self) -> None:
        """Close all, also those in use."""
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
        """A new generation; idle connections of the old one close, those in use when they are given back."""
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
            raise KubeConfigError(f"{self._credentials.url!r} names no server; it is to begin with https:// and a host")
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
    """One session and who uses it."""

    session: aiohttp.ClientSession
    until_s: float
    users: int = 0
    retired: bool = field(default=False)


class SessionPool:
    """A bounded set of connections of aiohttp to one server, for what is streamed."""

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
        """A session to send one request on, with its answer. Raises KubeConfigError."""
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
        """Let the next request open new connections: after a 401, or when the server moved."""
        async with self._opening:
            await self._retire()

    async def close(self) -> None:
        """Close all connections, also those in use."""
        await self._retire()
        for generation in tuple(self._old):  # a request that ends meanwhile takes its own away
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
                    # gzip would cost the API server, which is what must not melt, 10 ms of CPU per MB of a list
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
