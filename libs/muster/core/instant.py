"""Times as data: nanoseconds since the Unix epoch, as stamped by the broker."""

from muster.schemas.base import NEVER, Instant

__all__ = ["NEVER", "NS_PER_S", "Instant", "after", "seconds_between"]

NS_PER_S = 1_000_000_000


def after(start: Instant, seconds: float) -> Instant:
    """Return the time `seconds` after `start`."""
    return Instant(start + round(seconds * NS_PER_S))


def seconds_between(start: int, end: int) -> float:
    """Return the seconds from `start` to `end`; negative if `end` came first."""
    return (end - start) / NS_PER_S
