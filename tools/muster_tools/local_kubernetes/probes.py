"""Asking a process whether it is ready."""

import ssl
from collections.abc import Awaitable, Callable

import aiohttp

from muster_tools.local_kubernetes import bounds

Probe = Callable[[], Awaitable[bool]]
_OK = 200


def answers(url: str, *, tls: ssl.SSLContext | bool = True) -> Probe:
    """Whether `GET url` is answered with 200. tls: whom to trust; False for a certificate that nobody signed."""

    async def is_ready() -> bool:
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=bounds.PROBE_S_MAX)) as session,
                session.get(url, ssl=tls) as answer,
            ):
                return answer.status == _OK
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

    return is_ready
