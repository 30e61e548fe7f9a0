"""Clocks under a test's control."""

import asyncio
from dataclasses import dataclass, field
from heapq import heappop, heappush

from muster.core import NS_PER_S, Instant, after

_EPOCH = Instant(0)


@dataclass
class FakeTime:
    """Both clocks under a test's control; `advance` moves them together."""

    wall_ns: int = 1_000 * NS_PER_S
    elapsed_s: float = field(default=0.0)

    def wall(self) -> Instant:
        """See `TimeSource.wall`."""
        return Instant(self.wall_ns)

    def monotonic_s(self) -> float:
        """See `TimeSource.monotonic_s`."""
        return self.elapsed_s

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass."""
        self.wall_ns += round(seconds * NS_PER_S)
        self.elapsed_s += seconds


class SteppedClock:
    """A clock of a simulated fabric that stands still until `advance` is called."""

    def __init__(self, start: Instant = _EPOCH) -> None:
        self._now = start
        self._waiting: list[tuple[Instant, int, asyncio.Event]] = []
        self._numbers = 0

    @property
    def waiting(self) -> int:
        """How many wait for a later moment."""
        return len(self._waiting)

    def now(self) -> Instant:
        """See FabricClock.now."""
        return self._now

    async def until(self, moment: Instant) -> None:
        """See FabricClock.until."""
        if moment > self._now:
            event = asyncio.Event()
            self._numbers += 1
            heappush(self._waiting, (moment, self._numbers, event))
            await event.wait()

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass and wake who waited for a moment in them."""
        self._now = after(self._now, seconds)
        while self._waiting and self._waiting[0][0] <= self._now:
            heappop(self._waiting)[2].set()
