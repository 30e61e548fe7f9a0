"""Accept TLS connections and bound them from that moment on, also while their handshake is under way.

An event loop that listens with TLS itself shows a connection only after its handshake: clients that leave handshakes
unfinished would be outside of every limit.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum

from muster.gateway.tls import Certificate

ACCEPT_PAUSE_S = 1.0
"""Pause after an accept that failed, as it does while the process has no file descriptor left."""

_log = logging.getLogger(__name__)

Admit = Callable[[str, Callable[[], None]], asyncio.Protocol | None]
"""Admit a new connection, given its address and the function that closes it at once. Return the protocol that gets the
connection, or None if there is no place for it."""


class Outcome(StrEnum):
    """What became of an accepted connection."""

    COMPLETED = "completed"
    """The handshake was completed."""
    FAILED = "failed"
    """The client left, or it offered nothing that the gateway takes."""
    CLOSED = "closed"
    """The gateway closed the connection: its time was over, or a new connection needed its place."""
    REFUSED = "refused"
    """There was no place for the connection."""


class TlsListener:
    """Accepts connections and runs the server's side of their handshakes.

    Where a handshake is not completed, the protocol's `connection_lost` is called without a `connection_made`.
    """

    def __init__(
        self,
        listener: socket.socket,
        certificate: Certificate,
        *,
        admit: Admit,
        handshake_s_max: float,
        count: Callable[[Outcome], None],
    ) -> None:
        """handshake_s_max: for a connection that nothing else closes. count: called once for each connection."""
        self._listener = listener
        self._certificate = certificate
        self._admit = admit
        self._handshake_s_max = handshake_s_max
        self._count = count
        self._handshakes: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Accept connections until cancelled; then close the listener and end the handshakes that are under way."""
        self._listener.setblocking(False)
        try:
            while True:
                await self._accept()
        finally:
            self._listener.close()
            for task in self._handshakes:
                task.cancel()
            await asyncio.gather(*self._handshakes, return_exceptions=True)

    async def _accept(self) -> None:
        """Accept one connection."""
        try:
            accepted, address = await asyncio.get_running_loop().sock_accept(self._listener)
        except ConnectionAbortedError:
            pass  # the client has left meanwhile
        except OSError as error:
            _log.warning("no connection is accepted for %g s: %s", ACCEPT_PAUSE_S, error)
            await asyncio.sleep(ACCEPT_PAUSE_S)
        else:
            self._begin(_Connection(accepted), address[0] if isinstance(address, tuple) else "")
        await asyncio.sleep(0)  # while clients wait, `sock_accept` alone would let nothing else run

    def _begin(self, connection: "_Connection", address: str) -> None:
        protocol = self._admit(address, connection.close)
        if protocol is None:
            connection.socket.close()
            self._count(Outcome.REFUSED)
            return
        task = asyncio.create_task(self._shake(connection, protocol))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _shake(self, connection: "_Connection", protocol: asyncio.Protocol) -> None:
        """Run one handshake. If it fails, the event loop closes the connection."""
        outcome = Outcome.FAILED
        try:
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol,
                connection.socket,
                ssl=self._certificate.context,
                ssl_handshake_timeout=self._handshake_s_max,
            )
            if transport.get_extra_info("ssl_object") is not None:
                outcome = Outcome.COMPLETED
        except OSError:
            pass  # it is counted; a line for each would let anybody fill the log
        finally:
            if outcome is not Outcome.COMPLETED:
                protocol.connection_lost(ConnectionAbortedError("the TLS handshake was not completed"))
                outcome = Outcome.CLOSED if connection.is_closed else Outcome.FAILED
            self._count(outcome)


class _Connection:
    """An accepted connection while its handshake is under way. is_closed: the gateway has closed it."""

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self.is_closed = False

    def close(self) -> None:
        """Have the handshake end at once: to the event loop this looks as if the client had left."""
        self.is_closed = True
        with suppress(OSError):  # it has ended already
            self.socket.shutdown(socket.SHUT_RDWR)
