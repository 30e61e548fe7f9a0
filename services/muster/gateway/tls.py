"""TLS of the gateway's port: the certificate, reloaded after a renewal, and bounds on handshakes.

An event loop that listens with TLS reports a connection only after its handshake: clients that leave handshakes
unfinished would evade every limit. So connections are accepted here, and count from that moment on.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from muster.bus.gateway_settings import TlsSettings

_log = logging.getLogger(__name__)

_Stamp = tuple[tuple[int, int, int], ...]
"""Detects changed files: modification time, size and inode of each."""

ACCEPT_PAUSE_S = 1.0
"""Pause after a failed accept in seconds, for example while the process has no free file descriptor."""

Admit = Callable[[str, Callable[[], None]], asyncio.Protocol | None]
"""Admit a new connection, given its address and the function that closes it at once.

Return the protocol that receives the
connection, or None if the connection is refused.
"""


class Certificate:
    """A certificate and its key. `context` accepts connections, also after a renewal.

    Raises OSError (ssl.SSLError is one) if the files cannot be read or do not match.
    """

    def __init__(self, settings: TlsSettings) -> None:
        assert settings.certificate is not None, "a port without TLS needs no certificate"
        assert settings.key is not None, "the settings have both files or none"
        self._files = (settings.certificate, settings.key)
        self._reload_s = settings.reload_s
        self._loaded = _stamp(self._files)
        self.context = _context(*self._files)

    async def keep_fresh(self) -> None:
        """Reload changed files until cancelled. Files that do not match (yet) are ignored."""
        while True:
            await asyncio.sleep(self._reload_s)
            try:
                if await self.reload():
                    _log.info("%s was renewed", self._files[0])
            except OSError as error:
                _log.warning("%s was not reloaded, the current certificate stays in use: %s", self._files[0], error)

    async def reload(self) -> bool:
        """Load the files if they have changed; return whether they had. Raises OSError."""
        stamp = await asyncio.to_thread(_stamp, self._files)
        if stamp == self._loaded:
            return False
        await asyncio.to_thread(
            _context, *self._files
        )  # test them first: a mismatched pair must not reach the context in use
        _load(
            self.context, *self._files
        )  # in the event loop, so that no handshake sees a new certificate with an old key
        self._loaded = stamp
        return True


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    _load(context, certificate, key)
    return context


def _load(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    context.load_cert_chain(
        certificate, key, password=""
    )  # otherwise OpenSSL prompts for the password of an encrypted key


def _stamp(files: tuple[Path, ...]) -> _Stamp:
    return tuple((found.st_mtime_ns, found.st_size, found.st_ino) for found in (file.stat() for file in files))


class Outcome(StrEnum):
    """The outcome of an accepted connection."""

    COMPLETED = "completed"
    """The handshake was completed."""
    FAILED = "failed"
    """The client left, or it offered no parameters that the gateway accepts."""
    CLOSED = "closed"
    """The gateway closed the connection: it timed out, or a new connection needed its place."""
    REFUSED = "refused"
    """The connection was refused."""


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
        """Create the listener. handshake_s_max: timeout of a handshake. count: called once for each connection."""
        self._listener = listener
        self._certificate = certificate
        self._admit = admit
        self._handshake_s_max = handshake_s_max
        self._count = count
        self._handshakes: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Accept connections until cancelled; then close the listener and cancel the handshakes under way."""
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
            pass  # the client has left
        except OSError as error:
            _log.warning("no connection is accepted for %g s: %s", ACCEPT_PAUSE_S, error)
            await asyncio.sleep(ACCEPT_PAUSE_S)
        else:
            self._begin(_Connection(accepted), address[0] if isinstance(address, tuple) else "")
        await asyncio.sleep(0)  # while clients wait, `sock_accept` alone would let no other task run

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
            pass  # counted only: a line for each would let any client fill the log
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
        """End the handshake at once: to the event loop, the client appears to have left."""
        self.is_closed = True
        with suppress(OSError):  # the connection has ended already
            self.socket.shutdown(socket.SHUT_RDWR)
