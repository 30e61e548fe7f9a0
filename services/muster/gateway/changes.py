"""What an operator asks of the clusters: under which key it is stored, and waiting until it is so."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.requests import Request

from muster.gateway.accept import KEY_PATTERN
from muster.gateway.context import AppContext
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import invalid

CHANGE_WAIT_S = 2.0
CHANGE_POLL_S = 0.05

Found = TypeVar("Found")


def key_of(request: Request) -> str:
    """The client's idempotency key; without one each request is a new one. Raises ProblemError (422)."""
    key = request.headers.get("idempotency-key") or os.urandom(16).hex()
    if not KEY_PATTERN.match(key):
        raise invalid(
            "an idempotency key is 1 to 200 printable characters without spaces",
            field="Idempotency-Key",
            cure="Send a shorter key, a UUID for example.",
        )
    return key


async def until_so(context: AppContext, look: Callable[[], Awaitable[Found | None]]) -> Found | None:
    """What `look` finds once the clusters have answered; None if they do not within CHANGE_WAIT_S."""
    deadline_s = context.time.monotonic_s() + CHANGE_WAIT_S
    while context.time.monotonic_s() < deadline_s:
        try:
            found = await look()
        except UnreachableError:
            found = None
        if found is not None:
            return found
        await asyncio.sleep(CHANGE_POLL_S)
    return None
