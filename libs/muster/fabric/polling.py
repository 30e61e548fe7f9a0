"""Waiting for work that a manager does by itself: look, ever more rarely, until it is over or the time is."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from muster.fabric import bounds
from muster.fabric.driver import (
    FabricNonsenseError,
    FabricRefusedError,
    FabricTimeoutError,
    FabricUnavailableError,
)

FoundT = TypeVar("FoundT")


async def poll(
    look: Callable[[], Awaitable[FoundT | None]], *, until: float, what: str, poll_s: float = bounds.POLL_S_MIN
) -> FoundT:
    """The first answer of `look` that is not None. poll_s: before the first look.

    The work was begun before, so its effect is unknown until it is seen: a look that fails is taken again, and one that
    is refused (the work is not known any more) is nonsense. Raises FabricTimeoutError, FabricNonsenseError.
    """
    loop = asyncio.get_running_loop()
    seen = "it goes on"
    while (left_s := until - loop.time()) > 0:
        await asyncio.sleep(min(poll_s, left_s))
        try:
            found = await look()
        except FabricUnavailableError as error:
            seen = str(error)
        except FabricRefusedError as error:
            raise FabricNonsenseError(f"{what}: begun, and then: {error}") from error
        else:
            if found is not None:
                return found
            seen = "it goes on"
        poll_s = min(poll_s * bounds.POLL_GROWTH, bounds.POLL_S_MAX)
    raise FabricTimeoutError(f"{what}: not over in time: {seen}")
