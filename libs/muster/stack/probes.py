"""Whether a server answers, asked over a bare socket: no HTTP or Redis client is loaded for it."""

import asyncio
import re

from muster.stack.ports import LOOPBACK

PROBE_TIMEOUT_S = 1.0
ANSWER_BYTES = 4_096
_LEAF_NODES = re.compile(rb'"leafnodes":\s*(\d+)')


async def _ask(port: int, request: bytes) -> bytes:
    """First bytes of the answer; empty if there is none in time."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
            try:
                writer.write(request)
                return await reader.read(ANSWER_BYTES)
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return b""


async def http_ok(port: int, path: str) -> bool:
    """Whether `GET path` on this machine answers 200."""
    answer = await _ask(port, f"GET {path} HTTP/1.0\r\nHost: {LOOPBACK}\r\n\r\n".encode())
    return answer.split(b" ", 2)[1:2] == [b"200"]


async def leaf_nodes(port: int) -> int:
    """How many leaf nodes a broker has now, by its monitoring; 0 if it does not say."""
    answer = await _ask(port, f"GET /leafz HTTP/1.0\r\nHost: {LOOPBACK}\r\n\r\n".encode())
    found = _LEAF_NODES.search(answer)
    return int(found[1]) if found is not None else 0


async def http_answers(port: int) -> bool:
    """Whether something there speaks HTTP, whatever it thinks of the question."""
    return (await _ask(port, f"GET / HTTP/1.0\r\nHost: {LOOPBACK}\r\n\r\n".encode())).startswith(b"HTTP/")


async def redis_answers(port: int) -> bool:
    """Whether a Redis listens there: asked without its password, it says that it wants one."""
    return (await _ask(port, b"PING\r\n")).startswith((b"+PONG", b"-NOAUTH"))
