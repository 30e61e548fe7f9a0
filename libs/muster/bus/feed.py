"""One consumer's life: messages as the broker delivers them, kept in a bounded buffer by pull requests.

A feed notices what is wrong (a hole in the consumer sequence, the consumer gone, another connection) and then only
says `broken`; the reader makes a new one after the last message that it got in order.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from muster.bus import jsapi
from muster.bus.decode import Position, position
from muster.bus.names import API
from muster.bus.ports import ApiError, FactsMissingError, LogUnavailableError
from muster.core.instant import NS_PER_S

BUFFER_MESSAGES_MAX = 2000
"""Delivered and requested messages together; a new request is made when half of them were taken."""
PULL_BYTES_MAX = 8 * 1024 * 1024
PULL_EXPIRES_S = 30.0
INACTIVE_S = 60.0
"""The broker deletes a consumer without requests after this time."""
API_TIMEOUT_S = 2.0
STATUS = "Status"
PENDING_MESSAGES = "Nats-Pending-Messages"
GONE = "503"
ENDED = frozenset({"408", "409", "404"})


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message and its position."""

    message: Msg
    at: Position


class Feed:
    """Messages of `stream` after `after_seq`, in order and without holes until `broken` says otherwise.

    drop: for tests, swallows messages by stream sequence as a bad network would.
    """

    def __init__(
        self, client: Client, stream: str, *, after_seq: int, drop: Callable[[int], bool] | None = None
    ) -> None:
        self._client = client
        self._stream = stream
        self._drop = drop
        self._consumer = ""
        self._inbox = client.new_inbox()
        self._subscription: Subscription | None = None
        self._reconnects = client.stats["reconnects"]
        self._requested = 0
        self._consumer_seq = 0
        self._wake = asyncio.Event()
        self.last_seq = after_seq
        self.buffer: deque[Delivered] = deque()
        self.broken = ""

    async def open(self) -> None:
        """Make the consumer and ask for the first messages.

        Raises FactsMissingError if the stream no longer holds the next message or no longer what was already read,
        LogUnavailableError, ApiError.
        """
        await self._refuse_lost_store()
        self._subscription = await self._client.subscribe(
            self._inbox, cb=self._take_in, pending_msgs_limit=2 * BUFFER_MESSAGES_MAX
        )
        name = self._inbox.rpartition(".")[2]  # as hard to guess: who cannot name a consumer cannot touch it
        config = {
            "name": name,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self.last_seq + 1,
            "ack_policy": "none",
            "replay_policy": "instant",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": round(INACTIVE_S * NS_PER_S),
        }
        body = await jsapi.call(
            self._client,
            f"CONSUMER.CREATE.{self._stream}.{name}",
            {"stream_name": self._stream, "config": config},
            timeout_s=API_TIMEOUT_S,
        )
        made = jsapi.ConsumerInfo.model_validate_json(body)
        self._consumer = made.name
        if self.last_seq and made.delivered.stream_seq > self.last_seq:
            raise FactsMissingError(
                f"{self._stream} begins at {made.delivered.stream_seq + 1}, next to read is {self.last_seq + 1}: "
                "the log was trimmed past this reader; recover from a newer checkpoint"
            )
        await self.refill()

    async def _refuse_lost_store(self) -> None:
        info = await jsapi.stream_info(self._client, self._stream)
        if info is None:
            raise ApiError(jsapi.NO_STREAM, f"there is no stream {self._stream}; was bootstrap run?")
        if info.state.last_seq < self.last_seq:
            raise FactsMissingError(
                f"{self._stream} ends at {info.state.last_seq}, {self.last_seq} was already read: the store lost "
                "facts; restore it from an archive"
            )

    async def _take_in(self, message: Msg) -> None:
        """Take in a delivered message, or the server's status of a pull request."""
        at = position(message.reply)
        if at is None:
            self._heed_status(message.headers or {})
        elif not self.broken and not (self._drop is not None and self._drop(at.seq)):
            self._accept(Delivered(message, at))

    def _accept(self, delivered: Delivered) -> None:
        at = delivered.at
        if at.consumer_seq != self._consumer_seq + 1:
            self.broken = f"hole: delivery {at.consumer_seq} came after {self._consumer_seq}"
        else:
            self._consumer_seq = at.consumer_seq
            self._requested -= 1
            self.last_seq = at.seq
            self.buffer.append(delivered)
        self._wake.set()

    def _heed_status(self, fields: dict[str, str]) -> None:
        status = fields.get(STATUS, "")
        if status in ENDED:
            self._requested = max(0, self._requested - int(fields.get(PENDING_MESSAGES, self._requested)))
            if "Consumer Deleted" in fields.values():
                self.broken = "consumer deleted"
        else:
            self.broken = "consumer is gone" if status == GONE else f"status {status} to a pull request"
        self._wake.set()

    async def refill(self) -> None:
        """Ask for more when half of the buffer is neither filled nor requested."""
        room = BUFFER_MESSAGES_MAX - len(self.buffer) - self._requested
        if room < BUFFER_MESSAGES_MAX // 2 or self.broken:
            return
        request = {"batch": room, "max_bytes": PULL_BYTES_MAX, "expires": round(PULL_EXPIRES_S * NS_PER_S)}
        subject = f"{API}.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"
        self._requested += room
        await self._client.publish(subject, json.dumps(request).encode(), reply=self._inbox)

    async def wait(self, timeout_s: float) -> bool:
        """Wait for a message (True) or the end of the time (False). Buffered messages count."""
        if self.buffer or self.broken:
            return True
        self._wake.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        except TimeoutError:
            return False
        return True

    def reconnected(self) -> bool:
        """True if the connection was lost since: what was requested or on its way then will not come."""
        return bool(self._client.stats["reconnects"] != self._reconnects)

    async def behind(self, grace_s: float) -> str:
        """Compare what the server delivered, and still could, with what came here; says what is wrong, "" if nothing.

        The answer may overtake messages, so a difference counts only if it is still there `grace_s` later.
        Raises LogUnavailableError.
        """
        try:
            body = await jsapi.call(
                self._client, f"CONSUMER.INFO.{self._stream}.{self._consumer}", timeout_s=API_TIMEOUT_S
            )
        except ApiError as error:
            if error.err_code == jsapi.NO_CONSUMER:
                return "consumer is gone"
            raise
        told, seen = jsapi.ConsumerInfo.model_validate_json(body), self._consumer_seq
        delivered = told.delivered.consumer_seq
        if seen < delivered or told.num_pending:
            await asyncio.sleep(grace_s)
        if self._consumer_seq < delivered:
            return f"hole: {delivered} were delivered, {self._consumer_seq} came"
        if told.num_pending and self._consumer_seq == seen:
            return f"{told.num_pending} messages wait and none comes: a request was lost"
        return ""

    async def close(self) -> None:
        """Stop listening and delete the consumer; if the server does not answer, it forgets the consumer by itself."""
        if self._subscription is not None and not (self._client.is_closed or self._client.is_draining):
            await self._subscription.unsubscribe()
            self._subscription = None
        if self._consumer and self._client.is_connected:
            try:
                await jsapi.call(
                    self._client, f"CONSUMER.DELETE.{self._stream}.{self._consumer}", timeout_s=API_TIMEOUT_S
                )
            except (ApiError, LogUnavailableError):
                return  # gone already, or soon forgotten: INACTIVE_S
