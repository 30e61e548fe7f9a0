"""Moments are data: nanoseconds since the Unix epoch, as the broker stamps them."""

from typing import NewType

Instant = NewType("Instant", int)
"""Nanoseconds since the Unix epoch. Whole numbers, so that replays compare equal to the last bit."""

NS_PER_S = 1_000_000_000


def after(start: Instant, seconds: float) -> Instant:
    """The moment `seconds` after `start`."""
    return Instant(start + round(seconds * NS_PER_S))


def seconds_between(start: int, end: int) -> float:
    """Seconds from `start` to `end`; negative if `end` came first."""
    return (end - start) / NS_PER_S
