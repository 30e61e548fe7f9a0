"""Readiness probes over a bare socket, without an HTTP or Redis client."""

import asyncio
import json
import ssl

from muster.stack.ports import LOOPBACK

PROBE_TIMEOUT_S = 1.0


async def _ask(port: int, request: bytes, *, tls: ssl.SSLContext | None = None) -> bytes:
    """Return the first bytes of the response; empty if there is none in time."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=tls)
            try:
                writer.write(request)
                return await reader.read(256)
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return b""


async def http_ok(port: int, path: str, *, tls: bool = False) -> bool:
    """Return whether `GET path` on this machine returns 200. tls: over TLS."""
    context = _unverified() if tls else None
    answer = await _ask(port, f"GET {path} HTTP/1.0\r\nHost: {LOOPBACK}\r\n\r\n".encode(), tls=context)
    return answer.split(b" ", 2)[1:2] == [b"200"]


def _unverified() -> ssl.SSLContext:
    """Return a TLS context without verification, for probes of child processes: they send no secret."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the certificate is for the public name
    context.verify_mode = ssl.CERT_NONE
    return context


async def leaf_nodes(port: int) -> int:
    """Return the number of a broker's leaf nodes from its monitoring; 0 if it is unknown."""
    found = _page(await _whole(port, "/leafz")).get("leafnodes")
    return found if isinstance(found, int) else 0


async def leads(port: int, service: str) -> bool:
    """Return whether this service leads in the process with this metrics port."""
    services = _page(await _whole(port, "/healthz")).get("services")
    rows = services if isinstance(services, list) else []
    return any(row.get("service") == service and row.get("leading") is True for row in rows if isinstance(row, dict))


async def all_lead(port: int) -> bool:
    """Return whether every service of the process with this metrics port leads; a halted one never does."""
    services = _page(await _whole(port, "/healthz")).get("services")
    rows = [row for row in services if isinstance(row, dict)] if isinstance(services, list) else []
    return bool(rows) and all(row.get("leading") is not False or row.get("stopped") for row in rows)


async def _whole(port: int, path: str) -> bytes:
    """Return the complete response; empty if there is none in time."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
            try:
                writer.write(f"GET {path} HTTP/1.0\r\nHost: {LOOPBACK}\r\n\r\n".encode())
                return await reader.read()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return b""


def _page(answer: bytes) -> dict[str, object]:
    """Return the JSON object in a response; empty if there is none."""
    try:
        found = json.loads(answer.partition(b"\r\n\r\n")[2])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


async def http_answers(port: int) -> bool:
    """Return whether the port speaks HTTP, whatever the status."""
    return (await _ask(port, f"GET / HTTP/1.0\r\nHost: {LOOPBACK}\r\n\r\n".encode())).startswith(b"HTTP/")


async def redis_answers(port: int) -> bool:
    """Return whether a Redis listens on the port: without a password it responds that it requires one."""
    return (await _ask(port, b"PING\r\n")).startswith((b"+PONG", b"-NOAUTH"))
