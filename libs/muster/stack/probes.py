"""Whether a server answers, asked over a bare socket: no HTTP or Redis client is loaded for it."""

import asyncio
import json
import ssl

from muster.stack.ports import LOOPBACK

PROBE_TIMEOUT_S = 1.0


async def _ask(port: int, request: bytes, *, tls: ssl.SSLContext | None = None) -> bytes:
    """First bytes of the answer; empty if there is none in time."""
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
    """Whether `GET path` on this machine answers 200. tls: over TLS."""
    context = _unverified() if tls else None
    answer = await _ask(port, f"GET {path} HTTP/1.0\r\nHost: {LOOPBACK}\r\n\r\n".encode(), tls=context)
    return answer.split(b" ", 2)[1:2] == [b"200"]


def _unverified() -> ssl.SSLContext:
    """Return what a probe of an own child speaks TLS with: it sends no secret, and believes no more than a status."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the certificate is for the name that others know
    context.verify_mode = ssl.CERT_NONE
    return context


async def leaf_nodes(port: int) -> int:
    """How many leaf nodes a broker has now, by its monitoring; 0 if it does not say."""
    found = _page(await _whole(port, "/leafz")).get("leafnodes")
    return found if isinstance(found, int) else 0


async def leads(port: int, service: str) -> bool:
    """Whether a process' door says that this service leads there on its log."""
    services = _page(await _whole(port, "/healthz")).get("services")
    rows = services if isinstance(services, list) else []
    return any(row.get("service") == service and row.get("leading") is True for row in rows if isinstance(row, dict))


async def all_lead(port: int) -> bool:
    """Whether a process' door says that every service there leads on its log; one that stands still never will."""
    services = _page(await _whole(port, "/healthz")).get("services")
    rows = [row for row in services if isinstance(row, dict)] if isinstance(services, list) else []
    return bool(rows) and all(row.get("leading") is not False or row.get("stopped") for row in rows)


async def _whole(port: int, path: str) -> bytes:
    """An answer to its end; empty if there is none in time."""
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
    """The JSON object that an answer carries; empty if it carries none."""
    try:
        found = json.loads(answer.partition(b"\r\n\r\n")[2])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


async def http_answers(port: int) -> bool:
    """Whether something there speaks HTTP, whatever it thinks of the question."""
    return (await _ask(port, f"GET / HTTP/1.0\r\nHost: {LOOPBACK}\r\n\r\n".encode())).startswith(b"HTTP/")


async def redis_answers(port: int) -> bool:
    """Whether a Redis listens there: asked without its password, it says that it wants one."""
    return (await _ask(port, b"PING\r\n")).startswith((b"+PONG", b"-NOAUTH"))
