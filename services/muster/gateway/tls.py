"""TLS of the gateway's port: the certificate from files, and again from them after it was renewed."""

import asyncio
import logging
import ssl
from pathlib import Path

from muster.bus.gateway_settings import TlsSettings

_log = logging.getLogger(__name__)

_Stamp = tuple[tuple[int, int, int], ...]
"""What shows that files have changed: modification time, size and inode of each."""


class Certificate:
    """A certificate and its key. `context` is what the server takes connections with, also after a renewal.

    Raises OSError (ssl.SSLError is one) if the files cannot be read or do not belong together.
    """

    def __init__(self, settings: TlsSettings) -> None:
        assert settings.certificate is not None, "a port without TLS needs no certificate"
        assert settings.key is not None, "the settings have both files or none"
        self._files = (settings.certificate, settings.key)
        self._reload_s = settings.reload_s
        self._loaded = _stamp(self._files)
        self.context = _context(*self._files)

    async def keep_fresh(self) -> None:
        """Look for new files until cancelled. Files that do not belong together (yet) change nothing."""
        while True:
            await asyncio.sleep(self._reload_s)
            try:
                if await self.reload():
                    _log.info("%s was renewed", self._files[0])
            except OSError as error:
                _log.warning("%s was not renewed, the former certificate stays: %s", self._files[0], error)

    async def reload(self) -> bool:
        """Load the files if they have changed, and return whether they had. Raises OSError."""
        stamp = await asyncio.to_thread(_stamp, self._files)
        if stamp == self._loaded:
            return False
        await asyncio.to_thread(_context, *self._files)  # first elsewhere: half a pair must not reach the one in use
        _load(self.context, *self._files)  # in the loop, so that no handshake meets a new certificate with an old key
        self._loaded = stamp
        return True


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    _load(context, certificate, key)
    return context


def _load(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    context.load_cert_chain(certificate, key, password="")  # without one, OpenSSL asks for that of an encrypted key


def _stamp(files: tuple[Path, ...]) -> _Stamp:
    return tuple((found.st_mtime_ns, found.st_size, found.st_ino) for found in (file.stat() for file in files))
