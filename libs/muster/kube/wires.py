"""A bounded number of connections for requests, the most recently used first; those that grow old are replaced."""

import asyncio
import ssl
from collections import deque
from urllib.parse import SplitResult, urlsplit

from muster.core.seeded import uniform
from muster.kube import bounds
from muster.kube.credentials import Credentials
from muster.kube.errors import KubeConfigError
from muster.kube.wire import Wire


class Wires:
    """Connections to one server. A generation shares certificates, as they were read when it began, and its age."""

    def __init__(self, credentials: Credentials, *, connections_max: int, age_s_max: float, seed: int) -> None:
        self._credentials = credentials
        self._room = asyncio.Semaphore(connections_max)
        self._age_s_max = age_s_max
        self._seed = seed
        self._generation = 0
        self._until_s = 0.0
        self._tls: ssl.SSLContext | None = None
        self._idle: deque[Wire] = deque()
        self._busy: set[Wire] = set()
        self._renewing = asyncio.Lock()

    async def take(self) -> Wire:
        """A connection for one exchange; waits while all are in use. Raises OSError, TimeoutError, KubeConfigError.

        To be given back, whatever comes of it.
        """
        await self._room.acquire()
        try:
            wire = await self._taken()
        except BaseException:
            self._room.release()
            raise
        self._busy.add(wire)
        return wire

    def give(self, wire: Wire) -> None:
        """The exchange is over."""
        self._busy.discard(wire)
        self._room.release()
        if not self._is_good(wire):
            wire.close()
            return
        wire.idle_since_s = asyncio.get_running_loop().time()
        self._idle.append(wire)

    def renew(self) -> None:
        """Let the next request open new connections: after a 401, or when the server moved."""
        self._until_s = 0.0

    def close(self) -> None:
        """Close all, also those in use."""
        for wire in (*self._idle, *self._busy):
            wire.close()
        self._idle.clear()
        self._until_s = 0.0

    async def _taken(self) -> Wire:
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._until_s:
            await self._begin()
        while self._idle:
            wire = self._idle.pop()
            if self._is_good(wire) and now_s - wire.idle_since_s < bounds.KEEPALIVE_S:
                return wire
            wire.close()
        return await self._opened()

    def _is_good(self, wire: Wire) -> bool:
        return wire.is_open and wire.generation == self._generation

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

    async def _opened(self) -> Wire:
        server, generation = urlsplit(self._credentials.url), self._generation
        if not server.hostname:
            raise KubeConfigError(f"{self._credentials.url!r} names no server; it is to begin with https:// and a host")
        async with asyncio.timeout(bounds.CONNECT_S):
            _, wire = await asyncio.get_running_loop().create_connection(
                lambda: Wire(generation),
                server.hostname,
                _port(server),
                ssl=self._tls,
                server_hostname=None if self._tls is None else self._credentials.server_name or server.hostname,
            )
        return wire


def _port(server: SplitResult) -> int:
    return server.port or (443 if server.scheme == "https" else 80)
