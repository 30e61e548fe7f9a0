"""How a reflector goes, for metrics and for people."""

from dataclasses import dataclass


@dataclass(slots=True)
class ReflectorFigures:
    """Counts since the start and the state of one reflector. Times are of the event loop's clock, in seconds."""

    resource: str
    synced: bool = False
    streaming: bool = True
    """Whether the server serves streaming lists, as far as is known."""
    objects: int = 0
    relists: int = 0
    """How often the whole state was asked for; 1 is the best there can be."""
    reconnects: int = 0
    """Watches that ended as they should and were resumed."""
    failures: int = 0
    """Watches and lists that ended with an error; `last_error` says the last one."""
    gone: int = 0
    """Of these, versions that the server did not keep."""
    events: int = 0
    bookmarks: int = 0
    changes: int = 0
    """Delivered: events that changed nothing of interest are not."""
    compares: int = 0
    """Comparisons that came to an end."""
    missed: int = 0
    """Objects of which comparisons found that the watch had lost an update."""
    stuck: int = 0
    """Comparisons that found a watch which no longer went on."""
    heard_s: float = 0.0
    """When the last byte came."""
    bookmark_s: float = 0.0
    """When the last bookmark came."""
    last_error: str = ""

    def silent_s(self, now_s: float) -> float:
        """Seconds since the last byte; 0 before the first. The server sends something every 60 s."""
        return max(0.0, now_s - self.heard_s) if self.heard_s else 0.0
