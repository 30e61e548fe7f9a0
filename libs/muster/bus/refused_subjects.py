"""Subjects that the broker does not take from a connection: it says so beside the answers, and drops the message."""

import asyncio
import re
from collections import deque
from collections.abc import Iterable

from nats.aio.client import Client

REFUSED_MAX = 1024
"""Subjects that are remembered, more than one batch has; the oldest are forgotten."""

_VIOLATION = re.compile(r'permissions violation for publish to "([^"]*)"', re.IGNORECASE)


class RefusedSubjects:
    """What a broker refused to take since the last `forget`. Letter case is lost on the way from the client."""

    def __init__(self) -> None:
        self._subjects: deque[str] = deque(maxlen=REFUSED_MAX)
        self._watched = ""
        self._watcher: asyncio.Future[None] | None = None

    def saw(self, error: Exception) -> None:
        """Take note of an error that the broker reports for the connection."""
        found = _VIOLATION.search(str(error))
        if found is None:
            return
        subject = found[1].lower()
        self._subjects.append(subject)
        if subject == self._watched and self._watcher is not None and not self._watcher.done():
            self._watcher.set_result(None)

    def forget(self) -> None:
        """Forget what was refused so far."""
        self._subjects.clear()

    def among(self, subjects: Iterable[str]) -> list[int]:
        """Return the positions of those subjects that were refused."""
        refused = frozenset(self._subjects)
        return [index for index, subject in enumerate(subjects) if subject.lower() in refused] if refused else []

    def watch(self, subject: str) -> "asyncio.Future[None]":
        """Return a future that is done once this subject is refused. One subject is watched at a time."""
        self._watched, self._watcher = subject.lower(), asyncio.get_running_loop().create_future()
        return self._watcher


class WatchingClient(Client):
    """A connection that remembers what the broker does not take from it; give `refused.saw` its errors."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = RefusedSubjects()
