"""How many streams an API server allows on one HTTP/2 connection: its greeting says so (RFC 9113, section 6.5.2)."""

import asyncio
import ssl
import struct
from urllib.parse import urlsplit

from muster.guard.limits import PROBE_FRAMES_MAX, PROBE_S_MAX

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_EMPTY_SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_HEADER_BYTES = 9
_SETTINGS, _ACK = 0x4, 0x1
_MAX_CONCURRENT_STREAMS = 0x3
_SETTING_BYTES = 6
_FRAME_BYTES_MAX = 16_384
_UNLIMITED = 2**31 - 1


async def streams_max(url: str) -> int:
    """SETTINGS_MAX_CONCURRENT_STREAMS of the server at `url`; 0 if it speaks no HTTP/2 or did not answer in time.

    Nothing is asked and no credentials are sent, so the certificate does not matter.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" or parts.hostname is None:
        return 0
    try:
        async with asyncio.timeout(PROBE_S_MAX):
            return await _greeting(parts.hostname, parts.port or 443)
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return 0


async def _greeting(host: str, port: int) -> int:
    reader, writer = await asyncio.open_connection(host, port, ssl=_context(), server_hostname=host)
    try:
        chosen = writer.get_extra_info("ssl_object").selected_alpn_protocol()
        if chosen != "h2":
            return 0
        writer.write(_PREFACE + _EMPTY_SETTINGS)
        await writer.drain()
        for _ in range(PROBE_FRAMES_MAX):
            header = await reader.readexactly(_HEADER_BYTES)
            length, kind, flags = int.from_bytes(header[:3], "big"), header[3], header[4]
            if length > _FRAME_BYTES_MAX:
                return 0
            body = await reader.readexactly(length)
            if kind == _SETTINGS and not flags & _ACK:
                return streams_of(body)
        return 0
    finally:
        writer.close()


def streams_of(settings: bytes) -> int:
    """The setting in the body of a SETTINGS frame; without it there is no limit."""
    for start in range(0, len(settings) - _SETTING_BYTES + 1, _SETTING_BYTES):
        name, value = struct.unpack_from(">HI", settings, start)
        if name == _MAX_CONCURRENT_STREAMS:
            return int(value)
    return _UNLIMITED


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context
