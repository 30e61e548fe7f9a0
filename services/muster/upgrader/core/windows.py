"""When nodes may be taken: weekly windows in UTC, counted from the epoch; no calendar is needed for that."""

from collections.abc import Sequence

from muster.core import NS_PER_S, Instant
from muster.schemas.facts.upgrade import DAY_MIN, Window

_MINUTE_NS = 60 * NS_PER_S
_WEEK_MIN = 7 * DAY_MIN
_EPOCH_WEEKDAY = 3
"""1 January 1970 was a Thursday; Monday is 0."""


def open_at(windows: Sequence[Window], moment: Instant) -> Instant:
    """The first moment, not before this one, at which a node may be taken. No windows: this one."""
    if not windows:
        return moment
    week_start, into = _week(moment)
    best: int | None = None
    for window in windows:
        length = (window.to_min - window.from_min) % DAY_MIN or DAY_MIN
        for day in window.days or range(7):
            opens = (day * DAY_MIN + window.from_min) * _MINUTE_NS
            for start in (opens - _WEEK_MIN * _MINUTE_NS, opens, opens + _WEEK_MIN * _MINUTE_NS):
                if into < start + length * _MINUTE_NS:
                    found = max(start, into)
                    best = found if best is None else min(best, found)
                    break
    assert best is not None, "a window opens every week"
    return Instant(week_start + best)


def _week(moment: Instant) -> tuple[int, int]:
    """The Monday, 00:00, before a moment, and how far into its week that is. Nanoseconds."""
    since_monday = moment + _EPOCH_WEEKDAY * DAY_MIN * _MINUTE_NS
    into = since_monday % (_WEEK_MIN * _MINUTE_NS)
    return moment - into, into
