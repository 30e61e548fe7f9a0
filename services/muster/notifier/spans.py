"""Durations and counts in words. Pure."""


def span(seconds: float) -> str:
    """`850 ms`, `42 s`, `3 min 20 s`, `5 h 7 min`, `2 d 3 h`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    whole = round(seconds)
    for size, name, smaller, smaller_name in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {name} {rest} {smaller_name}" if rest else f"{whole // size} {name}"
    return f"{whole} s"
