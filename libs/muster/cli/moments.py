"""Parse and format times and durations. Pure, except for the time zone of the machine as the default."""

import re
from datetime import datetime, tzinfo

from muster.cli.errors import usage
from muster.core.instant import NS_PER_S

DAY_S, HOUR_S, MINUTE_S = 86_400, 3_600, 60
LENGTH_S_MAX = 36_525 * DAY_S
_UNITS_S = {"w": 7 * DAY_S, "d": DAY_S, "h": HOUR_S, "m": MINUTE_S, "min": MINUTE_S, "s": 1}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(min|w|d|h|m|s)\s*")


def length_s(text: str, *, option: str) -> float:
    """Parse a duration such as `2h`, `1h30m` or `1.5d` into seconds. Raises CliError that names the option."""
    parts = _PART.findall(text.strip())
    if not parts or _PART.sub("", text.strip()):
        raise usage(f"{option}: {text!r} is not a duration; write for example 90m, 1h30m or 2d")
    length = sum(float(number) * _UNITS_S[unit] for number, unit in parts)
    if length > LENGTH_S_MAX:
        raise usage(f"{option}: {text[:40]!r} is longer than 100 years; give a shorter duration")
    return length


def moment_ns(text: str, *, option: str, zone: tzinfo | None = None) -> int:
    """Parse a time such as `2026-11-22T10:00+01:00`. zone: the default; None: that of the machine. Raises CliError."""
    try:
        read = datetime.fromisoformat(text)
        there = read if read.tzinfo is not None else read.replace(tzinfo=zone) if zone else read.astimezone()
        seconds = there.timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise usage(
            f"{option}: {text!r} is not a time; write for example 2026-11-22T10:00 or 2026-11-22T10:00+01:00"
        ) from error
    if seconds <= 0:
        raise usage(f"{option}: {text} is before 1970; give a time in the future")
    return round(seconds) * NS_PER_S


def when(at_ns: int, *, now_ns: int, zone: tzinfo | None = None) -> str:
    """Format a time with its distance from now: `14:05 (in 12 min)`."""
    return f"{clock(at_ns, now_ns=now_ns, zone=zone)} ({distance(at_ns, now_ns=now_ns)})"


def clock(at_ns: int, *, now_ns: int, zone: tzinfo | None = None) -> str:
    """Format a time as `14:05`, `Sun 22 Nov 14:05`, or with the year of another year."""
    at, now = (datetime.fromtimestamp(ns / NS_PER_S, tz=zone).astimezone(zone) for ns in (at_ns, now_ns))
    if at.date() == now.date():
        return f"{at:%H:%M}"
    return f"{at:%a} {at.day} {at:%b %H:%M}" if at.year == now.year else f"{at:%Y-%m-%d %H:%M}"


def distance(at_ns: int, *, now_ns: int) -> str:
    """Format the distance from now: `in 12 min`, `now`, `3 h 20 min ago`."""
    seconds = round((at_ns - now_ns) / NS_PER_S)
    if seconds == 0:
        return "now"
    return f"in {long(seconds)}" if seconds > 0 else f"{long(-seconds)} ago"


def long(seconds: float) -> str:
    """Format a duration in its two largest units: `40 s`, `12 min`, `3 h 20 min`, `2 d 4 h`."""
    whole = round(seconds)
    if whole < MINUTE_S:
        return f"{whole} s"
    if whole < HOUR_S:
        return f"{whole // MINUTE_S} min"
    large, small, names = (DAY_S, HOUR_S, ("d", "h")) if whole >= DAY_S else (HOUR_S, MINUTE_S, ("h", "min"))
    rest = whole % large // small
    return f"{whole // large} {names[0]}" + (f" {rest} {names[1]}" if rest else "")
