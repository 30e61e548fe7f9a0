"""Make text from clients safe to show."""

TEXT_CHARS_MAX = 1_024
"""Length of a sentence in a fact or answer (`muster.schemas.base.Text`)."""
NAME_CHARS_MAX = 253
"""Length of a user, resource or workload name."""
AGENT_CHARS_MAX = 120


def printable(words: str, most: int = TEXT_CHARS_MAX) -> str:
    """Return the text cut to `most` characters, with `?` for unprintable ones."""
    cut = words if len(words) <= most else f"{words[: most - 1]}…"
    return cut if cut.isprintable() else "".join(one if one.isprintable() else "?" for one in cut)
