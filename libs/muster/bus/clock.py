"""The only place that reads a clock. Everything else is given `now`.

A leader's `now` is its own clock, but never less than the newest broker time-stamp that it folded and never backwards.
What the own clock is ahead of the broker's is measured at every append; ahead by more than `SKEW_S_MAX` it is taken
off, so that a wrong clock holds deadline kills back instead of making them early (DESIGN 5.6).
"""

import time
from typing import Protocol

from muster.core.instant import NS_PER_S, Instant, seconds_between

SKEW_S_MAX = 2.0


class TimeSource(Protocol):
    """A wall clock and a monotonic one. Tests inject their own."""

    def wall(self) -> Instant:
        """Nanoseconds since the Unix epoch; may jump."""
        ...

    def monotonic_s(self) -> float:
        """Seconds from some point; never jumps. For durations and deadlines within one process."""
        ...


class SystemTime:
    """The machine's clocks."""

    def wall(self) -> Instant:
        """Return the wall clock time."""
        return Instant(time.time_ns())  # noqa: TID251 - the one place

    def monotonic_s(self) -> float:
        """Return the monotonic time, in seconds."""
        return time.monotonic()


class Clock:
    """Estimate of the broker's time by one shell."""

    def __init__(self, source: TimeSource | None = None) -> None:
        self._source = source or SystemTime()
        self._latest = Instant(0)
        self.skew_s = 0.0
        """What the own clock is ahead of the broker's; negative if behind. 0 until something was appended."""

    def monotonic_s(self) -> float:
        """Return the time for durations and deadlines within this process."""
        return self._source.monotonic_s()

    def wall(self) -> Instant:
        """Return the own clock uncorrected; only to compare it with the broker's."""
        return self._source.wall()

    def now(self, newest_folded: Instant) -> Instant:
        """Return the time of a decision, given the newest broker time that was folded."""
        own = self._source.wall()
        if self.skew_s > SKEW_S_MAX:
            own = Instant(own - round(self.skew_s * NS_PER_S))
        self._latest = max(self._latest, own, newest_folded)
        return self._latest

    def saw_append(self, *, sent: Instant, answered: Instant, stamped: Instant) -> None:
        """Correct the offset by an append that the broker stamped `stamped`, between the own `sent` and `answered`."""
        if stamped < sent:
            self.skew_s = seconds_between(stamped, sent)
        elif stamped > answered:
            self.skew_s = seconds_between(stamped, answered)
        else:
            self.skew_s = 0.0
