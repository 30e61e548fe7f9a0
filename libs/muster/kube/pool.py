"""Pools of connections that grow old: a new one takes over, the old one goes when its last request has ended.

Watches have a pool of their own, since over HTTP/1.1 each holds a connection for minutes.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from muster.core.seeded import uniform
from muster.kube import bounds
from muster.kube.credentials import Credentials


@dataclass
class _Generation:
    """One session and who uses it."""

    session: aiohttp.ClientSession
    until_s: float
    users: int = 0
    retired: bool = field(default=False)


class Pool:
    """One bounded set of connections to one server."""

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
