"""The HTTP server: uvicorn, with bounds on connections and on the time that a client may take.

uvicorn itself limits neither the time nor the size of a header, and its one limit of connections refuses all clients.
"""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import cast

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from muster.bus.gateway_settings import HttpSettings
from muster.gateway import answers
from muster.gateway.connections import Admission, ConnectionTable
from muster.gateway.problems import unavailable
from muster.gateway.tls import Certificate, Outcome, TlsListener

SHUTDOWN_S = 2
SWEEP_S = 1.0
"""Time between two checks for connections past their deadline, in seconds."""

HANDSHAKE_GRACE_S = 5.0
"""Margin of the event loop's own handshake timeout over the connection's deadline, in seconds."""

FLUSH_S = 1.0
"""Time that a refused client has to read its refusal, in seconds."""

PROBES = frozenset({"/healthz", "/readyz"})
"""Paths that are answered above the limit of connections."""

HEADERS = [("X-Content-Type-Options", "nosniff")]
"""Headers of every answer, also of answers without a route."""

Table = ConnectionTable["BoundedProtocol"]


async def serve(
    app: ASGIApp,
    listener: socket.socket,
    bounds: HttpSettings,
    *,
    certificate: Certificate | None = None,
    count_handshake: Callable[[Outcome], None] = lambda _: None,
    sweep_s: float = SWEEP_S,
) -> None:
    """Serve an application until cancelled; then open answers may end within SHUTDOWN_S.

    certificate: for a port with TLS; None for plain HTTP. count_handshake: called once for each TLS connection,
    when its handshake has ended.
    """
    table: Table = ConnectionTable(
        connections_max=bounds.connections_max,
        per_address_max=bounds.connections_per_address_max,
        proxies=bounds.proxies,
    )
    config = _config(app, table, bounds)
    server = _HostedServer(config)

    def admit(address: str, close: Callable[[], None]) -> BoundedProtocol | None:
        protocol = BoundedProtocol(config, server.server_state, {}, table=table, bounds=bounds)
        return protocol if protocol.admit(address, close) is Admission.ADMITTED else None

    listeners = [listener] if certificate is None else []  # with TLS, uvicorn does not accept connections itself
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_sweep(table, every_s=sweep_s), name="http-deadlines")
            tasks.create_task(_run(server, listeners), name="http-server")
            if certificate is not None:
                limit_s = bounds.header_s_max + HANDSHAKE_GRACE_S
                tls = TlsListener(listener, certificate, admit=admit, handshake_s_max=limit_s, count=count_handshake)
                tasks.create_task(tls.run(), name="tls-listener")
    finally:
        for connection in table.open():  # clients that have not read their answers by now
            connection.close()


def _config(app: ASGIApp, table: Table, bounds: HttpSettings) -> uvicorn.Config:
    """Return uvicorn's configuration, without its own limits and logs and without unused features."""
    return uvicorn.Config(
        _Overload(app, table),
        http=cast("type[asyncio.Protocol]", partial(BoundedProtocol, table=table, bounds=bounds)),
        ws="none",  # the application has no WebSockets, and a WebSocket would evade the bounds
        loop="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        log_level="error",  # a warning for each malformed request would let any client fill the log
        server_header=False,
        proxy_headers=False,
        headers=HEADERS,
        timeout_keep_alive=max(1, round(bounds.idle_s_max)),
        timeout_graceful_shutdown=SHUTDOWN_S,
    )


async def _run(server: uvicorn.Server, listeners: list[socket.socket]) -> None:
    """Run a server until cancelled; then let it shut down gracefully."""
    serving = asyncio.create_task(server.serve(sockets=listeners), name="uvicorn")
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        await asyncio.wait([serving])
        raise


class _HostedServer(uvicorn.Server):
    """A server that leaves the process's signals to the host."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers."""
        yield


class _Overload:
    """Answers only health probes above the limit of connections, so that probes do not restart the process."""

    def __init__(self, app: ASGIApp, table: Table) -> None:
        self._app = app
        self._table = table

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it above the limit."""
        if not self._table.is_over or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        refusal = unavailable("the gateway has reached its limit of connections")
        await answers.problem(refusal.problem, close=True)(scope, receive, send)


async def _sweep(table: Table, *, every_s: float) -> None:
    """End connections that are past their deadline: one scan of all costs less than timers for each request."""
    loop = asyncio.get_running_loop()
    while True:
        now_s = loop.time()
        for connection in table.open():
            connection.close_if_due(now_s)
        await asyncio.sleep(every_s)


class BoundedProtocol(HttpToolsProtocol):
    """One connection. Its deadline depends on its state: first header (after the handshake, with TLS), body, next
    request, or reader."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        table: Table,
        bounds: HttpSettings,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._table = table
        self._bounds = bounds
        self._deadline_s: float | None = None
        self._write_deadline_s: float | None = None
        self._is_in_header = False
        self._is_message_whole = True
        self._has_progress = False
        self._unparsed_bytes = 0
        self._was_refused = False
        self._was_closed = False
        self._close_now: Callable[[], None] | None = None

    def admit(self, address: str, close: Callable[[], None]) -> Admission:
        """Register the connection, closing an idle one if necessary. close: closes this connection at once."""
        admission, closes = self._table.admit(self, address)
        if closes is not None:
            closes.close()
        self._close_now, self._deadline_s = close, self.loop.time() + self._bounds.header_s_max
        return admission

    def close(self) -> None:
        """Close the connection at once, during the handshake or after it."""
        assert self._close_now is not None, "a connection in the table has been admitted"
        self._was_closed = True
        self._close_now()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Register or refuse the connection. A TLS connection has been registered since before its handshake."""
        super().connection_made(transport)
        if self._close_now is not None:
            self._close_now = transport.abort
            if self._was_closed:  # while its handshake was completing
                transport.abort()
            return
        admission = self.admit(self.client[0] if self.client else "", transport.abort)
        if admission is Admission.FULL:
            transport.abort()
        elif admission is Admission.ADDRESS_FULL:
            most = self._bounds.connections_per_address_max
            self._refuse(429, f"your address has {most} open connections, all in use; close some of them")

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from the table."""
        self._table.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received data; limit data that completes neither a header nor a part of the body."""
        self._has_progress = False
        super().data_received(data)
        self._unparsed_bytes = 0 if self._has_progress else self._unparsed_bytes + len(data)
        if self._unparsed_bytes > self._bounds.header_bytes_max:
            self._refuse(431, f"a header has at most {self._bounds.header_bytes_max} bytes")

    def on_message_begin(self) -> None:
        """Start the deadline of the header."""
        super().on_message_begin()
        self._is_in_header, self._is_message_whole = True, False
        self._deadline_s = self.loop.time() + self._bounds.header_s_max

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header; ignore trailers after the body."""
        if self._is_in_header:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the deadline of the body."""
        self._is_in_header, self._has_progress = False, True
        self._deadline_s = self.loop.time() + self._bounds.body_s_max
        self._table.mark_busy(self)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body on."""
        self._has_progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the answer, or for the next request if it was answered already."""
        self._has_progress = self._is_message_whole = True
        super().on_message_complete()
        self._settle()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the rest of this one."""
        super().on_response_complete()
        self._settle()

    def pause_writing(self) -> None:
        """Start the deadline of the reader. Meanwhile the connection counts as idle, so that another may replace it."""
        super().pause_writing()
        self._write_deadline_s = self.loop.time() + self._bounds.write_s_max
        self._table.mark_idle(self)

    def resume_writing(self) -> None:
        """Continue with the answer."""
        super().resume_writing()
        self._write_deadline_s = None
        if self._is_answering():
            self._table.mark_busy(self)

    def close_if_due(self, now_s: float) -> None:
        """Close the connection if a deadline is past. A client that still sends its request gets a 408."""
        deadlines = [at for at in (self._deadline_s, self._write_deadline_s) if at is not None]
        if not deadlines or now_s < min(deadlines):
            return
        is_told = (self._is_in_header or not self._is_message_whole) and not self._has_answer()
        if is_told and not self._was_refused:
            self._refuse(408, "the request was not received within the time limit")
        else:
            self.close()

    def _settle(self) -> None:
        """Set the deadline after a complete message or answer."""
        if self._is_answering():
            if self._is_message_whole:
                self._deadline_s = None
            return
        self._table.mark_idle(self)
        if self._is_message_whole:
            self._deadline_s = self.loop.time() + self._bounds.idle_s_max

    def _is_answering(self) -> bool:
        return bool(self.pipeline) or not _is_complete(self.cycle)

    def _has_answer(self) -> bool:
        """Return whether a part of the answer to the current request was sent."""
        return not self._is_in_header and _has_started(self.cycle)

    def _refuse(self, status: int, detail: str) -> None:
        """Answer instead of the application and close within FLUSH_S."""
        if self.transport.is_closing():
            return
        self._was_refused = True
        self._deadline_s = self.loop.time() + FLUSH_S
        phrase = HTTPStatus(status).phrase
        body = json.dumps({"title": phrase, "status": status, "detail": detail}).encode()
        lines = [
            f"HTTP/1.1 {status} {phrase}",
            *(f"{name}: {value}" for name, value in HEADERS),
            f"Content-Type: {answers.PROBLEM}",
            f"Content-Length: {len(body)}",
            *(["Retry-After: 1"] if status == HTTPStatus.TOO_MANY_REQUESTS else []),
            "Connection: close",
        ]
        self.transport.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        self.transport.close()


def _is_complete(cycle: RequestResponseCycle | None) -> bool:
    """Return whether an answer is complete. Before the first request there is none, contrary to uvicorn's types."""
    return cycle is None or cycle.response_complete


def _has_started(cycle: RequestResponseCycle | None) -> bool:
    return cycle is not None and cycle.response_started
