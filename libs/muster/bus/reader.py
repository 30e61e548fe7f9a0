"""The reader of a log: every message after a sequence, in order, each once, whatever the broker or network lose.

Two checks find what was lost (DESIGN 5.5): a hole in the consumer sequence, and on every idle second a difference
between what the server delivered and what came. Either, a reconnect, or a consumer that is gone makes a new consumer
after the last message that came in order.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from itertools import islice

from nats.aio.client import Client

from muster.bus import jsapi
from muster.bus.dead import DeadLetters
from muster.bus.decode import Dead, Decoder, Skipped
from muster.bus.feed import Delivered, Feed
from muster.bus.ports import ApiError, Batch, LogCounters, LogUnavailableError
from muster.core.fact import Fact
from muster.schemas.subjects import LogName

IDLE_S = 1.0
GRACE_S = 0.25
RETRY_S = 0.05
UNANSWERED_MAX = 2
"""Unanswered checks on an open connection after which the consumer counts as lost with its server."""

LEADER_ASKED_EVERY = 5
"""Every n-th check of an idle reader asks the log's leader, too."""

_logger = logging.getLogger(__name__)


class RawReader:
    """Messages as stored in the stream, undecoded: for archives, and below `NatsReader`."""

    def __init__(
        self,
        client: Client,
        stream: str,
        *,
        after_seq: int,
        counters: LogCounters,
        drop: Callable[[int], bool] | None = None,
    ) -> None:
        self._client = client
        self._stream = stream
        self._counters = counters
        self._drop = drop
        self._feed: Feed | None = None
        self._checked_at = 0.0
        self._unanswered = 0
        self._checks = 0
        self._stood_at = -1
        self._explained = 0
        self._after_seq = after_seq
        self.waiting: deque[Delivered] = deque()

    async def open(self) -> None:
        """Make the first consumer. Raises FactsMissingError, LogUnavailableError, ApiError."""
        await self._renew("")

    async def fill(self, timeout_s: float) -> bool:
        """Wait until `waiting` holds messages; False if none came in time. Raises FactsMissingError, ApiError."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            trouble = await self._trouble()
            if trouble:
                await self._repair(trouble)
            if self.waiting:
                return True
            now = loop.time()
            if now >= deadline:
                return False
            if self._feed is None or not self._client.is_connected:
                await asyncio.sleep(min(RETRY_S, deadline - now))
            else:
                await self._feed.refill()
                await self._feed.wait(min(deadline, self._checked_at + IDLE_S) - now)

    async def take(self, count: int) -> None:
        """Remove the first `count` of `waiting`; request more messages if there is room."""
        for _ in range(count):
            self.waiting.popleft()
        self._checked_at = asyncio.get_running_loop().time()
        if self._feed is not None and self._client.is_connected:
            await self._feed.refill()

    async def close(self) -> None:
        """Free what the broker keeps."""
        if self._feed is not None:
            await self._feed.close()
            self._feed = None

    async def _trouble(self) -> str:
        """Why a new consumer is needed, "" if all is well. Checks with the server after an idle second."""
        feed = self._feed
        if feed is None:
            return "no consumer"
        if feed.broken:
            return feed.broken
        if not self._client.is_connected:
            return ""
        if feed.reconnected():
            return "reconnected"
        now = asyncio.get_running_loop().time()
        if self.waiting or now < self._checked_at + IDLE_S:
            return ""
        self._checked_at = now
        try:
            await feed.refill()
            behind = await feed.behind(GRACE_S) or await self._behind_leader(feed)
        except LogUnavailableError:  # the connection reports it, or one of the next checks answers
            self._unanswered += 1
            return "" if self._unanswered < UNANSWERED_MAX else "its server does not answer"
        self._unanswered = 0
        return behind

    async def _behind_leader(self, feed: Feed) -> str:
        """In a cluster a consumer tells what its own server has, which may have missed what the log's leader holds.

        Twice in a row at the same place counts, and once for each head: its last messages may have been deleted.
        Raises LogUnavailableError.
        """
        self._checks += 1
        if self._checks % LEADER_ASKED_EVERY:
            return ""
        info = await jsapi.stream_info(self._client, self._stream)
        head = info.state.last_seq if info is not None else 0
        stood_at, self._stood_at = self._stood_at, -1
        if head <= feed.last_seq or head == self._explained:
            return ""
        if stood_at != feed.last_seq:
            self._stood_at = feed.last_seq
            return ""
        self._explained = head
        return f"its server has no more, and the log ends at {head}"

    async def _repair(self, trouble: str) -> None:
        if trouble.startswith("hole"):
            self._counters.gaps += 1
        try:
            await self._renew(trouble)
        except LogUnavailableError:
            return  # `fill` tries again until its time is over, and every later `fill` does
        self._counters.recreated += 1

    async def _renew(self, trouble: str) -> None:
        old, self._feed = self._feed, None
        if old is not None:
            old.broken = trouble  # takes nothing in from here on
            self._after_seq = old.last_seq
            _logger.warning("%s: new consumer after %d: %s", self._stream, old.last_seq, trouble)
            await old.close()
        feed = Feed(self._client, self._stream, after_seq=self._after_seq, drop=self._drop)
        feed.buffer = self.waiting
        try:
            await feed.open()
        except BaseException:
            await feed.close()
            raise
        self._feed = feed
        self._unanswered = 0
        self._checked_at = asyncio.get_running_loop().time()


class NatsReader:
    """Facts of one log (`ports.LogReader`). Made by `NatsLog.reader`."""

    def __init__(
        self, client: Client, log: LogName, raw: RawReader, *, dead: DeadLetters, counters: LogCounters
    ) -> None:
        self._client = client
        self._log = log
        self._raw = raw
        self._dead = dead
        self._counters = counters
        self._decoder = Decoder(log)
        self._last_seq = 0

    async def open(self, *, after_seq: int) -> None:
        """Begin after `after_seq`. Raises FactsMissingError, LogUnavailableError, ApiError."""
        self._last_seq = after_seq
        await self._raw.open()

    async def read(self, *, limit: int, timeout_s: float) -> Batch:
        """Return the next facts; wait while the bus is unavailable, then return an empty batch.

        Raises FactsMissingError, LogUnavailableError (a dead letter could not be stored; read again), ApiError.
        """
        if not await self._raw.fill(timeout_s):
            return Batch((), self._last_seq, None, 0)
        facts: list[Fact] = []
        skipped = dead = 0
        taken = tuple(islice(self._raw.waiting, limit))
        for delivered in taken:
            found = self._decode(delivered)
            if type(found) is Fact:
                facts.append(found)
            elif isinstance(found, Dead):
                dead += 1
                message = delivered.message
                await self._dead.bury(self._log.stream, found, message.headers, message.data)
            else:
                skipped += 1
        await self._raw.take(len(taken))
        self._counters.decoded += len(facts)
        self._counters.skipped += skipped
        self._counters.dead += dead
        last, waiting = taken[-1].at, self._raw.waiting
        self._last_seq = last.seq
        pending = waiting[-1].at.pending + len(waiting) if waiting else last.pending
        return Batch(tuple(facts), last.seq, last.time, pending)

    def _decode(self, delivered: Delivered) -> Fact | Skipped | Dead:
        message, at = delivered.message, delivered.at
        return self._decoder.decode(message.subject, message.headers, message.data, seq=at.seq, time=at.time)

    async def head(self) -> int:
        """Return the sequence of the newest message; 0 if there is none. Raises LogUnavailableError, ApiError."""
        return await head(self._client, self._log)

    async def close(self) -> None:
        """Stop reading and free the broker's resources of this reader."""
        await self._raw.close()


async def head(client: Client, log: LogName) -> int:
    """Sequence of the newest message stored, from the stream's leader. Raises LogUnavailableError, ApiError."""
    info = await jsapi.stream_info(client, log.stream)
    if info is None:
        raise ApiError(jsapi.NO_STREAM, f"there is no stream {log.stream}; was bootstrap run?")
    return info.state.last_seq
