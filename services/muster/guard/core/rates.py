"""Rates between two pages of one API server."""

from collections.abc import Mapping
from math import inf
from typing import TypeVar

from muster.guard.core.pages import Page

K = TypeVar("K")
MINUTE_S = 60.0


def per_minute(
    before: Mapping[K, float], after: Mapping[K, float], *, seconds: float, restarted: bool
) -> dict[K, float]:
    """How fast counters grow; those of a restarted process began at 0. What does not grow is left out."""
    if seconds <= 0:
        return {}
    grown = ((key, value - (0.0 if restarted else before.get(key, 0.0))) for key, value in after.items())
    return {key: more * MINUTE_S / seconds for key, more in grown if more > 0}


def quantile_s(buckets: Mapping[tuple[str, float], float], part: float = 0.99) -> dict[str, float]:
    """By level, the bucket below which that part of its requests waited, in seconds; the last but one for "more".

    buckets: what each (level, bound) grew by, cumulative over bounds.
    """
    by_level: dict[str, list[tuple[float, float]]] = {}
    for (level, bound), number in buckets.items():
        by_level.setdefault(level, []).append((bound, number))
    found = {}
    for level, rows in by_level.items():
        rows.sort()
        wanted = rows[-1][1] * part
        finite = [bound for bound, _ in rows if bound != inf]
        bound = next(bound for bound, number in rows if number >= wanted)
        found[level] = bound if bound != inf else max(finite, default=0.0)
    return found


def has_restarted(before: Page, after: Page) -> bool:
    """Whether another process answers at the same address; clocks are read to the hundredth of a second."""
    return abs(before.started_at_s - after.started_at_s) > 1.0
