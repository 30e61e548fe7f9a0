"""Waiting for facts, never for time: every test that waits says what for, and fails when it does not come."""

import asyncio
from collections.abc import Awaitable, Callable

POLL_S = 0.005
ASKING_POLL_S = 0.05
"""Between two questions to other processes."""

PATIENCE_S = 60.0


async def until(is_so: Callable[[], object], *, patience_s: float = PATIENCE_S) -> None:
    """Wait for what this process sees by itself. Raises TimeoutError."""
    async with asyncio.timeout(patience_s):
        while not is_so():  # noqa: ASYNC110 - many things are waited for, and none of them tells
            await asyncio.sleep(POLL_S)


async def until_async(is_so: Callable[[], Awaitable[object]], *, patience_s: float = PATIENCE_S) -> None:
    """Wait for what others must be asked. Raises TimeoutError."""
    async with asyncio.timeout(patience_s):
        while not await is_so():  # noqa: ASYNC110 - other processes cannot set an event of ours
            await asyncio.sleep(ASKING_POLL_S)
