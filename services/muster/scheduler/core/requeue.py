"""When the next decision is needed, and how much one decision does."""

from dataclasses import dataclass

from muster.core import NS_PER_S, Instant, after

DRAFTS_MAX = 1_024
"""Drafts of each sort, except placements, that one decision makes."""


@dataclass(slots=True)
class Requeue:
    """When the next decision is needed."""

    more: bool = False
    """Whether to decide again at once, because work was left over."""
    due: Instant | None = None
    """When a decision may find something new to do."""

    def wait_until(self, moment: Instant) -> None:
        """Decide again at this time, if not earlier."""
        self.due = moment if self.due is None else min(self.due, moment)


class Pace:
    """A token bucket: a burst at once, a rate in the long run. Its time is `now` of the calls, and only grows."""

    def __init__(self, *, burst: float, per_s: float) -> None:
        self._burst = burst
        self._per_s = per_s
        self._left = float(burst)
        self._at = Instant(0)

    def is_ready(self, now: Instant) -> bool:
        """Return whether one more unit may be done."""
        if now > self._at:
            self._left = min(self._burst, self._left + (now - self._at) / NS_PER_S * self._per_s)
            self._at = now
        return self._left >= 1

    def spend(self, number: float = 1) -> None:
        """Take tokens for work that was done; the balance may become negative."""
        self._left -= number

    def next_at(self) -> Instant:
        """Return when the next unit may be done."""
        return after(self._at, max(0.0, 1 - self._left) / self._per_s + 1e-6)
