"""Figures of a reflector for metrics and display."""

from dataclasses import dataclass


@dataclass(slots=True)
class ReflectorFigures:
    """Counts since the start, and state, of one reflector. Times are of the event loop's clock, in seconds."""

    resource: str
    synced: bool = False
    streaming: bool = True
    """Whether the server serves streaming lists, as far as is known."""
    objects: int = 0
    relists: int = 0
    """How often the whole state was listed; ideally once."""
    reconnects: int = 0
    """Watches that ended normally and were resumed."""
    failures: int = 0
    """Watches and lists that failed; `last_error` has the last message."""
    gone: int = 0
    """Failures because the server no longer had the version."""
    events: int = 0
    bookmarks: int = 0
    changes: int = 0
    """Delivered changes; events that change no field of interest are not delivered."""
    compares: int = 0
    """Completed comparisons."""
    missed: int = 0
    """Objects of which the watch had lost an update."""
    stuck: int = 0
    """Comparisons that found the watch stuck."""
    heard_s: float = 0.0
    """Time of the last byte."""
    bookmark_s: float = 0.0
    """Time of the last bookmark."""
    last_error: str = ""

    def silent_s(self, now_s: float) -> float:
        """Return the seconds since the last byte; 0 before the first. The server sends a bookmark every 60 s."""
        return max(0.0, now_s - self.heard_s) if self.heard_s else 0.0
