"""A TCP connection between a client and a real API server that can be cut, or go half open."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

CHUNK = 2**16


class Wire:
    """Forwards every connection to one server. connections: how many there were."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._scheme, self._host, self._port = parts.scheme, parts.hostname, parts.port
        self._writers: set[asyncio.StreamWriter] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server | None = None
        self.url = ""
        self.connections = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"{self._scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self._open.set()
        self.cut()
        await self._server.wait_closed()

    def cut(self) -> None:
        """Break all connections off; new ones stand."""
        for writer in list(self._writers):
            writer.transport.abort()

    def freeze(self) -> None:
        """Pass no byte on, of old and new connections, and close none."""
        self._open.clear()

    def thaw(self) -> None:
        """Pass on what waits and what comes."""
        self._open.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            there_reader, there_writer = await asyncio.open_connection(self._host, self._port)
            self._writers.add(there_writer)
            try:
                await asyncio.gather(self._pump(reader, there_writer), self._pump(there_reader, writer))
            finally:
                self._writers.discard(there_writer)
                there_writer.close()
        except OSError:
            pass  # refused or cut: the client sees its own end
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK):
            await self._open.wait()
            writer.write(chunk)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def wire_to(url: str) -> AsyncIterator[Wire]:
    """A wire while the block runs."""
    wire = Wire(url)
    await wire.start()
    try:
        yield wire
    finally:
        await wire.stop()
