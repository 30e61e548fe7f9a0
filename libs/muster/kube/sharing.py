"""Share one watch between the reflectors of a process that follow the same objects of the same server.

Each reflector has its own state and can open its own watch from its version. One leads; the others take the events that
it reads and parses once, if they are as far as it or ahead. A follower continues on its own until it is level
again when the leader ends, fails or lists the state again, and when the follower is too slow: none waits for another.
"""

import asyncio
from collections import deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from muster.kube import bounds
from muster.kube.objects import JsonObject


class Event(NamedTuple):
    """An event; its kind is "ADDED", "MODIFIED", "DELETED" or "BOOKMARK"."""

    kind: str
    obj: JsonObject


class Feed:
    """Events from the leader to one follower. Bounded: it ends when too many events wait."""

    def __init__(self) -> None:
        self.has_ended = False
        self._events: deque[list[Event]] = deque()
        self._count = 0
        self._wake = asyncio.Event()

    def give(self, events: list[Event]) -> None:
        """Queue events, or end the feed if too many wait."""
        if self._count + len(events) > bounds.SHARED_EVENTS_MAX:
            self.end()
            return
        self._events.append(events)
        self._count += len(events)
        self._wake.set()

    def end(self) -> None:
        """End the feed; queued events can still be taken."""
        self.has_ended = True
        self._wake.set()

    async def take(self) -> list[Event] | None:
        """Return the next events; None at the end."""
        while not self._events:
            if self.has_ended:
                return None
            self._wake.clear()
            await self._wake.wait()
        events = self._events.popleft()
        self._count -= len(events)
        return events


class Peers:
    """Reflectors of the same objects, one of which leads."""

    def __init__(self) -> None:
        self.members = 0
        self._leader: object | None = None
        self._version: int | None = None
        """Version up to which the leader handed on events; None while it has no state."""
        self._feeds: dict[object, Feed] = {}

    def follow(self, member: object, version: int) -> Feed | None:
        """Return the leader's feed if `member` is level with it; None to watch by itself, and maybe lead."""
        if self._leader is None:
            self._leader, self._version = member, None
        if not self.is_level(member, version):
            return None
        feed = self._feeds[member] = Feed()
        return feed

    def is_level(self, member: object, version: int) -> bool:
        """Return whether another member leads and has handed on no event that `member` lacks."""
        return self._leader is not member and self._version is not None and version >= self._version

    def give(self, member: object, events: list[Event], version: int) -> None:
        """Hand on the events of `member`, which reached `version`, if it leads."""
        if self._leader is not member:
            return
        self._version = version
        for follower, feed in list(self._feeds.items()):
            feed.give(events)
            if feed.has_ended:
                del self._feeds[follower]

    def leave(self, member: object) -> None:
        """Remove `member` as a follower; if it leads, its followers continue on their own."""
        feed = self._feeds.pop(member, None)
        if feed is not None:
            feed.end()
        if self._leader is not member:
            return
        self._leader = self._version = None
        for each in self._feeds.values():
            each.end()
        self._feeds.clear()


class SharedWatches:
    """The reflectors of a process, by server, credentials, kind and selection."""

    def __init__(self) -> None:
        self._peers: dict[Hashable, Peers] = {}

    @contextmanager
    def joined(self, key: Hashable) -> Iterator[Peers]:
        """Yield the peers for `key` in the running loop, as a member during the block."""
        key = (asyncio.get_running_loop(), key)
        peers = self._peers.setdefault(key, Peers())
        peers.members += 1
        try:
            yield peers
        finally:
            peers.members -= 1
            if not peers.members:
                del self._peers[key]


OF_THIS_PROCESS = SharedWatches()
"""For services hosted in one process: the agent and the guard both follow all pods of their cluster."""
