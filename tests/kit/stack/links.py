"""A link between two servers that a test can cut and restore: what passes, passes through this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from muster.stack.ports import LOOPBACK, free_port

CHUNK_BYTES = 64 * 1024


class Link:
    """Listens on `port` and passes on to `target` while it is whole."""

    def __init__(self, *, target: int) -> None:
        self.port = free_port()
        self.is_cut = False
        self._target = target
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._pass_on, LOOPBACK, self.port)

    def cut(self) -> None:
        """End what passes, and let nothing new through."""
        self.is_cut = True
        for writer in tuple(self._writers):
            writer.transport.abort()

    def restore(self) -> None:
        """Let new connections through again."""
        self.is_cut = False

    async def close(self) -> None:
        """End it."""
        self.cut()
        if self._server is not None:
            self._server.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut:
            writer.close()
            return
        try:
            onward_reader, onward_writer = await asyncio.open_connection(LOOPBACK, self._target)
        except OSError:
            writer.close()
            return
        both = (writer, onward_writer)
        self._writers.update(both)
        try:
            with suppress(asyncio.CancelledError):  # the loop ends; its streams want no word of it
                await asyncio.gather(_copy(reader, onward_writer), _copy(onward_reader, writer))
        finally:
            self._writers.difference_update(both)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.CancelledError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def linked(*, target: int) -> AsyncIterator[Link]:
    """A link that ends with the block."""
    link = Link(target=target)
    await link.open()
    try:
        yield link
    finally:
        await link.close()
