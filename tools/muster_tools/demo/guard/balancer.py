"""A TCP load balancer before API servers, as many clusters have one: a connection stays where it was put."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from muster_tools.local_kubernetes.ports import LOOPBACK

_READ_BYTES = 64 * 1024


class Balancer:
    """Listens on a port of its own. Each new connection goes to the next API server, or the one after if it is down.

    open: connections by API server, now.
    """

    def __init__(self, servers: Sequence[str]) -> None:
        self._targets = [(urlsplit(url).hostname or "", urlsplit(url).port or 443) for url in servers]
        self._next = 0
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()
        self.open: Counter[int] = Counter()

    @property
    def url(self) -> str:
        """Where clients connect."""
        assert self._server is not None, "it is entered first"
        return f"https://{LOOPBACK}:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> "Balancer":
        self._server = await asyncio.start_server(self._accept, LOOPBACK, 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for pipe in list(self._pipes):
            pipe.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pipes.add(task)
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            return  # by __aexit__; a cancelled task of a stream server would be told as a defect
        finally:
            self._pipes.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = self._next = (self._next + 1) % len(self._targets)
        for step in range(len(self._targets)):
            index = (first + step) % len(self._targets)
            try:
                to_server = await asyncio.open_connection(*self._targets[index])
            except OSError:
                continue
            self.open[index] += 1
            try:
                await _joined((reader, writer), to_server)
            finally:
                self.open[index] -= 1
            return


_Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _joined(client: _Ends, server: _Ends) -> None:
    """Until one side leaves; then the other is let go too."""
    pipes = [
        asyncio.create_task(_pipe(client[0], server[1])),
        asyncio.create_task(_pipe(server[0], client[1])),
    ]
    try:
        await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pipe in pipes:
            pipe.cancel()
        await asyncio.gather(*pipes, return_exceptions=True)
        server[1].close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(_READ_BYTES):
            writer.write(chunk)
            await writer.drain()
