"""One watch for all reflectors of a process that follow the same objects of the same server.

Each is whole by itself: it has its state and can go on with a watch of its own from the version it reached. While one
of them, who leads, is as far as it or behind, it needs none: the leader hands on what it reads, parsed once. It is let
go, and goes on by itself until it is level again, whenever the leader ends, fails or has the state anew, and when it
takes what it is handed too slowly: nobody waits for another.
"""

import asyncio
from collections import deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from muster.kube import bounds
from muster.kube.objects import JsonObject


class Event(NamedTuple):
    """kind: "ADDED", "MODIFIED", "DELETED" or "BOOKMARK"."""

    kind: str
    obj: JsonObject


class Feed:
    """What the leader hands on to one follower. Bounded: it ends when too many events wait."""

    def __init__(self) -> None:
        self.has_ended = False
        self._events: deque[list[Event]] = deque()
        self._count = 0
        self._wake = asyncio.Event()

    def give(self, events: list[Event]) -> None:
        """Hand them on, or end the feed."""
        if self._count + len(events) > bounds.SHARED_EVENTS_MAX:
            self.end()
            return
        self._events.append(events)
        self._count += len(events)
        self._wake.set()

    def end(self) -> None:
        """Nothing more comes; what waits is still taken."""
        self.has_ended = True
        self._wake.set()

    async def take(self) -> list[Event] | None:
        """The next events; None at the end."""
        while not self._events:
            if self.has_ended:
                return None
            self._wake.clear()
            await self._wake.wait()
        events = self._events.popleft()
        self._count -= len(events)
        return events


class Peers:
    """Reflectors of the same objects. version: how far the leader has handed on; None while it has no state."""

    def __init__(self) -> None:
        self.members = 0
        self._leader: object | None = None
        self._version: int | None = None
        self._feeds: dict[object, Feed] = {}

    def follow(self, member: object, version: int) -> Feed | None:
        """What the leader hands on from here on, if `member` is as far; None: it goes on by itself, and may lead."""
        if self._leader is None:
            self._leader, self._version = member, None
        if not self.is_level(member, version):
            return None
        feed = self._feeds[member] = Feed()
        return feed

    def is_level(self, member: object, version: int) -> bool:
        """Whether another leads who has handed on nothing that `member` has not seen."""
        return self._leader is not member and self._version is not None and version >= self._version

    def give(self, member: object, events: list[Event], version: int) -> None:
        """`member` reached `version` with these events; who leads hands them on."""
        if self._leader is not member:
            return
        self._version = version
        for follower, feed in list(self._feeds.items()):
            feed.give(events)
            if feed.has_ended:
                del self._feeds[follower]

    def leave(self, member: object) -> None:
        """`member` follows no longer, or ends, failed or begins anew: then its followers go on by themselves."""
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
    """The reflectors of a process, by what they follow: server, credentials, kind and selection."""

    def __init__(self) -> None:
        self._peers: dict[Hashable, Peers] = {}

    @contextmanager
    def joined(self, key: Hashable) -> Iterator[Peers]:
        """The peers of one who runs while the block does, in the running loop."""
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
"""For services that may be hosted beside others: the agent and the guard both follow all pods of their cluster."""
