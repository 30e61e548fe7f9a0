"""Moments are data: nanoseconds since the Unix epoch, as the broker stamps them."""

from muster.schemas.base import NEVER, Instant

__all__ = ["NEVER", "NS_PER_S", "Instant", "after", "seconds_between"]

NS_PER_S = 1_000_000_000


def after(start: Instant, seconds: float) -> Instant:
    """The moment `seconds` after `start`."""
    return Instant(start + round(seconds * NS_PER_S))


def seconds_between(start: int, end: int) -> float:
    """Seconds from `start` to `end`; negative if `end` came first."""
    return (end - start) / NS_PER_S
