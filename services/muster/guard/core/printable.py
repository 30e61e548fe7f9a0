"""Text of clients before it is shown: they name themselves as they like."""

TEXT_CHARS_MAX = 1_024
"""Of a sentence in a fact or answer (`muster.schemas.base.Text`)."""
NAME_CHARS_MAX = 253
"""Of a user, resource or workload."""
AGENT_CHARS_MAX = 120


def printable(words: str, most: int = TEXT_CHARS_MAX) -> str:
    """At most so many characters, all of them printable."""
    cut = words if len(words) <= most else f"{words[: most - 1]}…"
    return cut if cut.isprintable() else "".join(one if one.isprintable() else "?" for one in cut)
