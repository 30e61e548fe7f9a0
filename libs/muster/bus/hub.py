"""Services in one process share one reader per log, so a fact is decoded once and handed to all.

The slowest holds the shared reader back: what waits for one shell is bounded. A shell that starts from an older
sequence than the shared reader's gets a reader of its own and joins the shared one when it has caught up.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

from muster.bus.limits import HUB_FACTS_MAX, HUB_READ_MESSAGES, HUB_READ_S
from muster.bus.ports import Batch, LogReader
from muster.core.fact import Fact
from muster.core.instant import Instant

OpenReader = Callable[[int], Awaitable[LogReader]]
"""Opens a reader of one log after a sequence."""

_logger = logging.getLogger(__name__)


class Hub:
    """The shared reader of one log."""

    def __init__(
        self,
        open_reader: OpenReader,
        *,
        facts_max: int = HUB_FACTS_MAX,
        read_messages: int = HUB_READ_MESSAGES,
        read_s: float = HUB_READ_S,
    ) -> None:
        self.position = 0
        self._open_reader = open_reader
        self._facts_max = facts_max
        self._read_messages = read_messages
        self._read_s = read_s
        self._members: list[Member] = []
        self._reader: LogReader | None = None
        self._pump: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._opening = asyncio.Lock()

    async def reader(self, *, after_seq: int) -> "Member":
        """A reader after `after_seq`: of the shared one if that is not yet further. Raises what opening one raises."""
        async with self._opening:
            if self._reader is None:
                self._reader = await self._open_reader(after_seq)
                self.position = after_seq
                member = Member(self, self._reader, after_seq=after_seq, own=None)
                self.admit(member)
                self._pump = asyncio.create_task(self._run(self._reader), name="hub")
                return member
            shared = self._reader
        if after_seq >= self.position:
            member = Member(self, shared, after_seq=after_seq, own=None)
            self.admit(member)
            return member
        return Member(self, shared, after_seq=after_seq, own=await self._open_reader(after_seq))

    def admit(self, member: "Member") -> bool:
        """Hand what is read from here on to `member`; False if the shared reader is no longer the one it knows."""
        if self._reader is not member.shared:
            return False
        self._members.append(member)
        return True

    async def leave(self, member: "Member") -> None:
        """Hand nothing more to `member`; the shared reader ends with its last one."""
        if member in self._members:
            self._members.remove(member)
        self._room.set()
        if self._reader is member.shared and not self._members:
            await self._stop()

    def made_room(self) -> None:
        """A member took facts that were waiting for it."""
        self._room.set()

    async def _run(self, reader: LogReader) -> None:
        try:
            while True:
                batch = await reader.read(limit=self._read_messages, timeout_s=self._read_s)
                self.position = max(self.position, batch.last_seq)
                for member in self._members:
                    member.take(batch)
                while any(member.waiting >= self._facts_max for member in self._members):
                    self._room.clear()
                    await self._room.wait()
        except Exception as error:  # noqa: BLE001 - handed to every member, whose reads raise it
            for member in self._members:
                member.fail(error)
            self._members.clear()
            if self._reader is reader:
                self._reader = self._pump = None
            await reader.close()

    async def _stop(self) -> None:
        reader, pump = self._reader, self._pump
        self._reader = self._pump = None
        if pump is not None and not pump.done():
            pump.cancel()
            with suppress(asyncio.CancelledError):
                await pump
        if reader is not None:
            await reader.close()


class Member:
    """What one shell reads: a `ports.LogReader` whose batches come from the shared reader, or from its own at first."""

    def __init__(self, hub: Hub, shared: LogReader, *, after_seq: int, own: LogReader | None) -> None:
        self.shared = shared
        self.waiting = 0
        self._hub = hub
        self._own = own
        self._last_seq = after_seq
        self._time: Instant | None = None
        self._pending = 0
        self._batches: deque[Batch] = deque()
        self._error: Exception | None = None
        self._wake: asyncio.Future[None] | None = None
        self._woken = False

    @property
    def is_shared(self) -> bool:
        """False while it still catches up with a reader of its own."""
        return self._own is None

    def take(self, batch: Batch) -> None:
        """From the hub: keep a batch for the next read."""
        if batch.last_seq <= self._last_seq:
            return
        self._batches.append(batch)
        self.waiting += len(batch.facts)
        self._notify()

    def fail(self, error: Exception) -> None:
        """From the hub: the shared reader ended; reads raise `error` once what waits was read."""
        self._error = error
        self._notify()

    def wake(self) -> None:
        """Let a waiting read return at once, with what there is: its reader has something else to look at."""
        self._woken = True
        self._notify()

    async def read(self, *, limit: int, timeout_s: float) -> Batch:
        """See `ports.LogReader.read`. What piled up comes in one, up to `limit` and at least one shared batch."""
        if self._own is not None:
            return await self._read_own(self._own, limit=limit, timeout_s=timeout_s)
        if not self._batches and self._error is None and not self._woken:
            await self._wait(timeout_s)
        self._woken = False
        if not self._batches:
            if self._error is not None:
                raise self._error
            return Batch((), self._last_seq, None, 0)
        return self._merged(limit)

    async def head(self) -> int:
        """See `ports.LogReader.head`."""
        return await (self._own or self.shared).head()

    async def close(self) -> None:
        """See `ports.LogReader.close`."""
        if self._own is not None:
            await self._own.close()
            self._own = None
        await self._hub.leave(self)

    async def _read_own(self, own: LogReader, *, limit: int, timeout_s: float) -> Batch:
        batch = await own.read(limit=limit, timeout_s=timeout_s)
        self._last_seq = max(self._last_seq, batch.last_seq)
        # Nothing awaits between the comparison and the admission, so no fact falls between the two readers.
        if self._last_seq >= self._hub.position and self._hub.admit(self):
            self._own = None
            await own.close()
        return batch

    async def _wait(self, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._wake = loop.create_future()
        timer = loop.call_later(timeout_s, self._notify)
        try:
            await self._wake
        finally:
            timer.cancel()
            self._wake = None

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _merged(self, limit: int) -> Batch:
        first = self._batches.popleft()
        facts: tuple[Fact, ...] | list[Fact] = first.facts
        count, newest = len(first.facts), first
        if self._batches and count + len(self._batches[0].facts) <= limit:
            facts = list(first.facts)
            while self._batches and count + len(self._batches[0].facts) <= limit:
                newest = self._batches.popleft()
                facts += newest.facts
                count += len(newest.facts)
        self.waiting -= count
        self._hub.made_room()
        if facts and facts[0].seq <= self._last_seq:  # joined ahead of the shared reader
            facts = [fact for fact in facts if fact.seq > self._last_seq]
        self._last_seq = newest.last_seq
        return Batch(tuple(facts), newest.last_seq, newest.time, newest.pending + self.waiting)
