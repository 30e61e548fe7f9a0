"""The output of a job, page by page: each line once, none missed while the gateway still has it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from muster.schemas.live import OutputLine, OutputPage

LINES_MAX = 2_000
"""Lines of a page."""
WAIT_S = 5
"""How long the gateway waits for a line before it answers with an empty page, in seconds."""
PAUSE_S = 0.2
"""Pause between two pages, in seconds: a job that prints often gets its lines in fewer requests."""
UNASSIGNED_PAUSE_S = 1.0
"""The same for a job without a cluster, for which the gateway does not wait."""


async def lines_of_pages(
    page: Callable[[str, int], Awaitable[OutputPage]], has_ended: Callable[[], Awaitable[bool]], *, after: str = ""
) -> AsyncIterator[OutputLine]:
    """Yield the lines of pages until the job has ended and nothing is left.

    page: takes a cursor and a wait in seconds. after: the first cursor. A job has printed everything before it has
    ended, so a page after that whose cursor stands still is the last one.
    """
    cursor, is_over = after, await has_ended()
    while True:
        found = await page(cursor, 0 if is_over or not cursor else WAIT_S)
        for line in found.lines:
            yield line
        has_moved, cursor = found.end not in ("", cursor), found.end or cursor
        if not has_moved:
            if is_over:
                return
            is_over = await has_ended()
        if not is_over:
            await asyncio.sleep(PAUSE_S if found.end else UNASSIGNED_PAUSE_S)
