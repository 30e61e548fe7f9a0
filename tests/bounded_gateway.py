"""The gateway's own HTTP server on loopback, with bounds of the test's choice, and clients that send bytes."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from starlette.types import ASGIApp

from muster.bus.http_settings import HttpSettings
from muster.gateway.server import serve

SWEEP_S = 0.02
LOOPBACK = "127.0.0.1"


@dataclass
class RawClient:
    """One connection, byte by byte."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, text: str) -> None:
        self.writer.write(text.encode())

    async def ask(self, path: str, *, token: str = "", method: str = "GET", more: str = "") -> tuple[int, str]:
        """Send a request; return the status and the header of the answer."""
        bearer = f"Authorization: Bearer {token}\r\n" if token else ""
        self.send(f"{method} {path} HTTP/1.1\r\nHost: muster\r\n{bearer}{more}\r\n")
        return await self.answer()

    async def answer(self) -> tuple[int, str]:
        """Return the status and the header of the next answer."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        return int(head.split(" ", 2)[1]), head.lower()

    async def ended(self) -> bytes:
        """Return what still comes, once the server has closed the connection."""
        chunks = bytearray()
        with suppress(ConnectionError):
            while chunk := await self.reader.read(65_536):
                chunks += chunk
        return bytes(chunks)

    def close(self) -> None:
        self.writer.transport.abort()


class Gateway:
    """A server that runs, and the connections to it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://{LOOPBACK}:{port}"
        self._clients: list[RawClient] = []

    async def connect(self, *, source: str = LOOPBACK, receive_bytes: int = 0) -> RawClient:
        """Connect from an address of this machine. receive_bytes: size of the receive buffer; 0: the machine's own."""
        plain = socket.socket()
        plain.setblocking(False)
        if receive_bytes:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        plain.bind((source, 0))
        await asyncio.get_running_loop().sock_connect(plain, (LOOPBACK, self.port))
        client = RawClient(*await asyncio.open_connection(sock=plain, limit=receive_bytes or 65_536))
        self._clients.append(client)
        return client

    def close(self) -> None:
        for client in self._clients:
            client.close()


@asynccontextmanager
async def serving(app: ASGIApp, bounds: HttpSettings | None = None) -> AsyncIterator[Gateway]:
    """Serve an application as the gateway does, while the block runs."""
    listener = socket.create_server((LOOPBACK, 0), backlog=1_024)
    gateway = Gateway(listener.getsockname()[1])
    running = asyncio.create_task(serve(app, listener, bounds or HttpSettings(), sweep_s=SWEEP_S))
    try:
        yield gateway
    finally:
        gateway.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        listener.close()
