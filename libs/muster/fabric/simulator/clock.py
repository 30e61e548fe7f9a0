"""Time of a simulated fabric: the machine's, or a test's."""

import asyncio
from typing import Protocol

from muster.bus.clock import SystemTime, TimeSource
from muster.core import Instant, after, seconds_between

_EPOCH = Instant(0)


class FabricClock(Protocol):
    """Time source of a served fabric."""

    def now(self) -> Instant:
        """Return the time; never earlier than before."""
        ...

    async def until(self, moment: Instant) -> None:
        """Return at `moment`, at once if it has passed."""
        ...


class RunningClock:
    """Starts at the wall clock, or at `not_before` if that is later, and runs with the monotonic one.

    not_before: what a saved fabric had reached; a wall clock that was set back does not make it live that time again.
    """

    def __init__(self, *, not_before: Instant = _EPOCH, source: TimeSource | None = None) -> None:
        self._source = source or SystemTime()
        self._anchor = max(self._source.wall(), not_before)
        self._anchor_s = self._source.monotonic_s()

    def now(self) -> Instant:
        """See FabricClock.now."""
        return after(self._anchor, self._source.monotonic_s() - self._anchor_s)

    async def until(self, moment: Instant) -> None:
        """See FabricClock.until."""
        while (left_s := seconds_between(self.now(), moment)) > 0:  # noqa: ASYNC110 - a loop may wake a little early
            await asyncio.sleep(left_s)
