"""A log on a real nats-server (`ports.Log`)."""

from collections.abc import Callable, Mapping

from nats.aio.client import Client

from muster.bus.appender import NatsAppender
from muster.bus.counters import LogCounters
from muster.bus.dead import NatsDeadLetters
from muster.bus.reader import NatsReader, RawReader
from muster.schemas.subjects import LogName


class NatsLog:
    """One log. connection: reads (and buries dead letters). pens: by service, whose connection appends; else it too.

    drop: for tests, swallows delivered messages by stream sequence, as a bad network would.
    """

    def __init__(
        self,
        connection: Client,
        name: LogName,
        *,
        pens: Mapping[str, Client] | None = None,
        counters: LogCounters | None = None,
        drop: Callable[[int], bool] | None = None,
    ) -> None:
        self.name = name
        self.counters = counters or LogCounters()
        self._connection = connection
        self._pens: Mapping[str, Client] = {} if pens is None else pens
        self._drop = drop

    async def reader(self, *, after_seq: int) -> NatsReader:
        """See `ports.Log.reader`. Raises FactsMissingError, LogUnavailableError, ApiError."""
        raw = RawReader(
            self._connection, self.name.stream, after_seq=after_seq, counters=self.counters, drop=self._drop
        )
        dead = NatsDeadLetters(self._connection, self.counters)
        reader = NatsReader(self._connection, self.name, raw, dead=dead, counters=self.counters)
        await reader.open(after_seq=after_seq)
        return reader

    def appender(self, service: str) -> NatsAppender:
        """See `ports.Log.appender`."""
        return NatsAppender(self._pens.get(service, self._connection), self.name, service, self.counters)
