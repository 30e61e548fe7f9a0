"""The gateway's own HTTP server on loopback, with bounds of the test's choice, and clients that send bytes."""

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache

from starlette.types import ASGIApp

from kit.http.certificates import Authority
from muster.bus.gateway_settings import HttpSettings, TlsSettings
from muster.gateway.server import serve
from muster.gateway.tls import Certificate, Outcome

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
    """A server that runs, and the connections to it. handshakes: how those of a port with TLS ended."""

    def __init__(self, port: int, trusting: ssl.SSLContext | None) -> None:
        self.port = port
        self.running: asyncio.Task[None] | None = None
        self.url = f"{'http' if trusting is None else 'https'}://{LOOPBACK}:{port}"
        self.handshakes: Counter[Outcome] = Counter()
        self._trusting = trusting
        self._clients: list[RawClient] = []

    async def connect(self, *, source: str = LOOPBACK, receive_bytes: int = 0) -> RawClient:
        """Connect from an address of this machine. receive_bytes: size of the receive buffer; 0: the machine's own."""
        plain = await self._connected(source, receive_bytes)
        name = LOOPBACK if self._trusting is not None else None
        return self._kept(
            await asyncio.open_connection(
                sock=plain, limit=receive_bytes or 65_536, ssl=self._trusting, server_hostname=name
            )
        )

    async def begin_handshake(self, *, source: str = LOOPBACK, sent_bytes: int = 0) -> RawClient:
        """Connect, send so much of a ClientHello, and leave it at that."""
        client = self._kept(await asyncio.open_connection(sock=await self._connected(source, 0)))
        client.writer.write(client_hello()[:sent_bytes])
        return client

    async def _connected(self, source: str, receive_bytes: int) -> socket.socket:
        plain = socket.socket()
        plain.setblocking(False)
        if receive_bytes:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        plain.bind((source, 0))
        await asyncio.get_running_loop().sock_connect(plain, (LOOPBACK, self.port))
        return plain

    def _kept(self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> RawClient:
        client = RawClient(*streams)
        self._clients.append(client)
        return client

    def close(self) -> None:
        for client in self._clients:
            client.close()

    async def stop(self) -> None:
        """End the server."""
        assert self.running is not None, "the server was started"
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)


@cache
def client_hello() -> bytes:
    """The first bytes of a client with TLS."""
    outgoing = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=LOOPBACK)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@asynccontextmanager
async def serving(
    app: ASGIApp, bounds: HttpSettings | None = None, *, authority: Authority | None = None
) -> AsyncIterator[Gateway]:
    """Serve an application as the gateway does, while the block runs. authority: of its certificate; None: no TLS."""
    listener = socket.create_server((LOOPBACK, 0), backlog=1_024)
    certificate, trusting = None, None
    if authority is not None:
        file, key = authority.issue()
        certificate = Certificate(TlsSettings(certificate=file, key=key))
        trusting = ssl.create_default_context(cafile=str(authority.ca_file))
    gateway = Gateway(listener.getsockname()[1], trusting)

    def count(outcome: Outcome) -> None:
        gateway.handshakes[outcome] += 1

    gateway.running = asyncio.create_task(
        serve(
            app,
            listener,
            bounds or HttpSettings(),
            certificate=certificate,
            count_handshake=count,
            sweep_s=SWEEP_S,
        )
    )
    try:
        yield gateway
    finally:
        gateway.close()
        await gateway.stop()
        listener.close()
