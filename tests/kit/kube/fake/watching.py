"""Watches of the fake: state first if asked, then events as they happen, bookmarks, and silence if told so."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from pydantic_core import to_json

from kit.kube.fake.devices import shown
from kit.kube.fake.faults import Faults
from kit.kube.fake.selectors import Matches
from kit.kube.fake.store import Event, Kind, Refusal, Stored

END_OF_INITIAL_EVENTS = "k8s.io/initial-events-end"


@dataclass(eq=False)
class Watch:
    """One watch. buffer_max: an event more, and the server ends it without a word, as it does with slow readers.

    version: of its path, if its objects are stored in another.
    """

    kind: Kind
    namespace: str
    matches: Matches
    metadata_only: bool
    user_agent: str
    buffer_max: int = 100_000
    version: str = ""
    queue: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    ended: bool = False

    def offer(self, event: Event) -> None:
        """Pass on what is selected: an object that comes into a selection is ADDED, one that leaves it DELETED."""
        if event.resource != self.kind.resource or self.ended:
            return
        was, is_now = self._selected(event.before), not event.gone and self._selected(event.now)
        if was or is_now:
            word = b"MODIFIED" if was and is_now else b"ADDED" if is_now else b"DELETED"
            self.put(line(word, self.json(event.now)))

    def json(self, stored: Stored) -> bytes:
        """As the watch's reader is shown it."""
        if not self.version or self.metadata_only:
            return stored.json(metadata_only=self.metadata_only)
        return to_json(shown(self.kind.resource, self.version, stored.obj))

    def put(self, text: bytes) -> None:
        if self.queue.qsize() >= self.buffer_max:
            self.end()
        elif not self.ended:
            self.queue.put_nowait(text)

    def bookmark(self, version: int, *, end_of_initial: bool = False) -> None:
        metadata: dict[str, object] = {"resourceVersion": str(version), "creationTimestamp": None}
        if end_of_initial:
            metadata["annotations"] = {END_OF_INITIAL_EVENTS: "true"}
        resource = self.kind.resource
        api_version = f"{resource.group}/{self.version}" if self.version else resource.api_version
        said = {"kind": resource.kind, "apiVersion": api_version, "metadata": metadata}
        self.put(line(b"BOOKMARK", to_json(said)))

    def end(self) -> None:
        """Cleanly, as at a time-out."""
        if not self.ended:
            self.ended = True
            self.queue.put_nowait(None)

    def state(self) -> list[Stored]:
        objects = self.kind.objects
        return [objects[key] for key in sorted(objects) if self._selected(objects[key])]

    def replay(self, since: int) -> None:
        """Events after a version. Puts an ERROR if they are forgotten."""
        if since < self.kind.floor:
            refusal = Refusal(410, "Expired", f"too old resource version: {since} ({self.kind.floor})")
            self.put(line(b"ERROR", to_json(refusal.status)))
            self.end()
            return
        for event in self.kind.events:
            if event.now.version > since:
                self.offer(event)

    def _selected(self, stored: Stored | None) -> bool:
        if stored is None:
            return False
        metadata = stored.obj["metadata"]
        assert isinstance(metadata, dict)
        return (not self.namespace or metadata.get("namespace") == self.namespace) and self.matches(stored.obj)

    async def lines(self, faults: Faults, *, until_s: float) -> AsyncIterator[bytes]:
        """What is written, in batches."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout_at(until_s):
                    first = await self.queue.get()
            except TimeoutError:
                return
            batch = [first]
            while not self.queue.empty():
                batch.append(self.queue.get_nowait())
            while faults.frozen:  # noqa: ASYNC110 - half open: neither bytes nor an end
                await asyncio.sleep(0.02)
            if None in batch:
                rest = b"".join(text for text in batch[: batch.index(None)] if text is not None)
                if rest:
                    yield rest
                return
            yield b"".join(text for text in batch if text is not None)
            if loop.time() >= until_s:
                return


def line(word: bytes, obj: bytes) -> bytes:
    """One event as the server writes it."""
    return b'{"type":"' + word + b'","object":' + obj + b"}\n"
