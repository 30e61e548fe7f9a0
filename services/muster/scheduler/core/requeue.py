"""When to decide again, and how much one decision does."""

from dataclasses import dataclass

from muster.core import NS_PER_S, Instant, after

DRAFTS_MAX = 1_024
"""Drafts of each sort but placements by one decision."""


@dataclass(slots=True)
class Requeue:
    """When to decide again. more: at once, since something was left over. due: when something becomes possible."""

    more: bool = False
    due: Instant | None = None

    def wait_until(self, moment: Instant) -> None:
        """Decide again at this moment, if not earlier."""
        self.due = moment if self.due is None else min(self.due, moment)


class Pace:
    """So much at once, so much a second in the long run. Counts the time that it is given, and only forwards."""

    def __init__(self, *, burst: float, per_s: float) -> None:
        self._burst = burst
        self._per_s = per_s
        self._left = float(burst)
        self._at = Instant(0)

    def is_ready(self, now: Instant) -> bool:
        """Whether one more may be done."""
        if now > self._at:
            self._left = min(self._burst, self._left + (now - self._at) / NS_PER_S * self._per_s)
            self._at = now
        return self._left >= 1

    def spend(self, number: float = 1) -> None:
        """So much was done; more than there was left is done in advance."""
        self._left -= number

    def next_at(self) -> Instant:
        """When the next may be done."""
        return after(self._at, max(0.0, 1 - self._left) / self._per_s + 1e-6)
