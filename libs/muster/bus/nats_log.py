"""A log on a real nats-server: for one reader (`NatsLog`), or for all shells of a process (`SharedLog`)."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from nats.aio.client import Client

from muster.bus import jsapi
from muster.bus.appender import NatsAppender, newest_fence
from muster.bus.checkpoint import Voidance
from muster.bus.dead import NatsDeadLetters
from muster.bus.decode import read_stored
from muster.bus.limits import HUB_FACTS_MAX, HUB_READ_MESSAGES, HUB_READ_S
from muster.bus.ports import ApiError, Batch, LogAppender, LogCounters, LogReader
from muster.bus.reader import NatsReader, RawReader
from muster.core.fact import Fact
from muster.core.instant import Instant
from muster.schemas.registry import StreamRole
from muster.schemas.subjects import FED_LOG, FED_UP_LOG, LogName, cluster_log, fact_subject

_logger = logging.getLogger(__name__)

VOIDED_MAX = 10_000  # of one log; more is a mistake worth stopping at


class NatsLog:
    """One log. connection: reads, and buries dead letters. connections: by service, to append on; without one, it too.

    drop: for tests, swallows delivered messages by stream sequence, as a bad network would.
    """

    def __init__(
        self,
        connection: Client,
        name: LogName,
        *,
        connections: Mapping[str, Client] | None = None,
        counters: LogCounters | None = None,
        drop: Callable[[int], bool] | None = None,
    ) -> None:
        self.name = name
        self.counters = counters or LogCounters()
        self._connection = connection
        self._connections: Mapping[str, Client] = {} if connections is None else connections
        self._drop = drop

    async def reader(self, *, after_seq: int) -> NatsReader:
        """Return a reader of everything after a sequence. Raises FactsMissingError, LogUnavailableError, ApiError."""
        raw = RawReader(
            self._connection, self.name.stream, after_seq=after_seq, counters=self.counters, drop=self._drop
        )
        dead = NatsDeadLetters(self._connection, self.counters)
        reader = NatsReader(self._connection, self.name, raw, dead=dead, counters=self.counters)
        await reader.open(after_seq=after_seq)
        return reader

    def appender(self, service: str) -> NatsAppender:
        """Return the appender of a service."""
        return NatsAppender(self._connections.get(service, self._connection), self.name, service, self.counters)


async def read_voided(client: Client, log: LogName) -> tuple[Voidance, ...]:
    """Return all `voided` facts of a log, by subject, from the stream's leader; they are few however long the log is.

    Raises LogUnavailableError, ApiError.
    """
    subject = fact_subject(log, writer="operator", kind="log", subject_id="*", name="voided", cluster="*")
    found: list[Voidance] = []
    seq = 0
    while len(found) < VOIDED_MAX:
        message = await jsapi.next_on_subject(client, log.stream, subject, after_seq=seq)
        if message is None:
            return tuple(found)
        seq = message.seq
        fact = read_stored(log, message)
        said = Voidance.said_by(fact) if isinstance(fact, Fact) else None
        if said is None:
            _logger.warning("%s: the voided fact at %d cannot be read; it voids nothing", log.stream, seq)
            continue
        found.append(said)
    raise ApiError(0, f"{log.stream} holds more than {VOIDED_MAX} voided facts")


OpenReader = Callable[[int], Awaitable[LogReader]]
"""Oconnections a reader of one log after a sequence."""


class Hub:
    """The shared reader of one log, so that a fact is decoded once and handed to all services of the process.

    The slowest holds the shared reader back: what waits for one shell is bounded. A shell that starts from an older
    sequence than the shared reader's gets a reader of its own and joins the shared one when it has caught up.
    """

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
        """Return a reader after `after_seq`: the shared one unless that is further. Raises as opening one does."""
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
        """Resume reading after a member took facts that were waiting for it."""
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
    """A shell's `ports.LogReader`, whose batches come from the shared reader, or at first from its own."""

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
        """Return whether it reads from the shared reader; False while it catches up with its own reader."""
        return self._own is None

    def take(self, batch: Batch) -> None:
        """Keep a batch of the hub for the next read."""
        if batch.last_seq <= self._last_seq:
            return
        self._batches.append(batch)
        self.waiting += len(batch.facts)
        self._notify()

    def fail(self, error: Exception) -> None:
        """Record that the shared reader ended; reads raise `error` after the waiting batches were read."""
        self._error = error
        self._notify()

    def wake(self) -> None:
        """Let a waiting read return at once, with what there is: its reader has something else to look at."""
        self._woken = True
        self._notify()

    async def read(self, *, limit: int, timeout_s: float) -> Batch:
        """Return the waiting facts in one batch, up to `limit` and at least one shared batch."""
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
        """Return the sequence of the newest message, from the stream's leader; 0 if there is none."""
        return await (self._own or self.shared).head()

    async def close(self) -> None:
        """Stop reading and free the broker's resources of this reader."""
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


class SharedLog:
    """`shell.ServiceLog` over nats-server: a shared reader, and an appender per service on its own connection.

    connections: by service; add one before its appender is asked for.

    is_copy: the log itself is on another broker, and who folds the copy says nothing there.
    """

    def __init__(self, reader: Client, name: LogName, *, is_copy: bool = False) -> None:
        self.name = name
        self.is_copy = is_copy
        self.counters = LogCounters()
        self.connections: dict[str, Client] = {}
        self._reader = reader
        self._log = NatsLog(reader, name, counters=self.counters)
        self._hub = Hub(self._open)

    async def reader(self, *, after_seq: int) -> Member:
        """Return a reader of all facts after a sequence."""
        return await self._hub.reader(after_seq=after_seq)

    def appender(self, service: str) -> LogAppender:
        """Return the appender of a service, on the service's own connection."""
        assert service in self.connections, f"{service} has no connection of its own"
        return NatsLog(self.connections[service], self.name, counters=self.counters).appender(service)

    async def voided(self) -> tuple[Voidance, ...]:
        """Return the facts that operators let services skip."""
        return await read_voided(self._reader, self.name)

    async def first_seq(self) -> int:
        """Return the sequence of the oldest message, 1 if the log was never trimmed."""
        info = await jsapi.stream_info(self._reader, self.name.stream)
        if info is None:
            raise ApiError(jsapi.NO_STREAM, f"there is no stream {self.name.stream}; was bootstrap run?")
        return max(1, info.state.first_seq)

    async def newest_term(self, service: str) -> int:
        """Return the term of the service's newest fence, from the stream's leader; 0 without one."""
        newest = await newest_fence(self._reader, self.name, service)
        return 0 if newest is None else newest.fence.term

    async def _open(self, after_seq: int) -> NatsReader:
        return await self._log.reader(after_seq=after_seq)


def log_of(role: StreamRole, cluster: str) -> LogName:
    """Return the log of that role in a stack of one cluster."""
    match role:
        case StreamRole.LOG:
            return cluster_log(cluster)
        case StreamRole.FED:
            return FED_LOG
        case StreamRole.FED_UP:
            return FED_UP_LOG
