"""Many questions to one manager, a bounded number at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from muster.fabric import bounds

ItemT = TypeVar("ItemT")
FoundT = TypeVar("FoundT")


async def each(items: Sequence[ItemT], ask: Callable[[ItemT], Awaitable[FoundT]]) -> list[FoundT]:
    """All answers, in the order of the items. The first error ends all that is under way, and is raised."""
    found: list[FoundT] = []
    for start in range(0, len(items), bounds.SURVEY_PARALLEL):
        asked = [asyncio.ensure_future(ask(item)) for item in items[start : start + bounds.SURVEY_PARALLEL]]
        try:
            found.extend(await asyncio.gather(*asked))
        finally:
            for one in asked:
                one.cancel()
    return found
