"""One log as all shells of a process see it: a shared reader, and a pen per service on the service's own connection."""

from nats.aio.client import Client

from muster.bus import jsapi
from muster.bus.checkpoint import Voidance
from muster.bus.counters import LogCounters
from muster.bus.errors import ApiError
from muster.bus.fences import newest_fence
from muster.bus.hub import Hub, Member
from muster.bus.nats_log import NatsLog
from muster.bus.ports import LogAppender
from muster.bus.reader import NatsReader
from muster.bus.voided import read_voided
from muster.schemas.registry import StreamRole
from muster.schemas.subjects import FED_LOG, FED_UP_LOG, LogName, cluster_log


class SharedLog:
    """`shell_parts.ServiceLog` over nats-server. pens: connections by service; add one before it is asked for.

    is_copy: the log itself is on another broker, and who folds the copy says nothing there.
    """

    def __init__(self, reader: Client, name: LogName, *, is_copy: bool = False) -> None:
        self.name = name
        self.is_copy = is_copy
        self.counters = LogCounters()
        self.pens: dict[str, Client] = {}
        self._reader = reader
        self._log = NatsLog(reader, name, counters=self.counters)
        self._hub = Hub(self._open)

    async def reader(self, *, after_seq: int) -> Member:
        """See `shell_parts.ServiceLog.reader`."""
        return await self._hub.reader(after_seq=after_seq)

    def appender(self, service: str) -> LogAppender:
        """See `shell_parts.ServiceLog.appender`. Never the reader's connection, which may not append."""
        assert service in self.pens, f"{service} has no connection of its own"
        return NatsLog(self.pens[service], self.name, counters=self.counters).appender(service)

    async def voided(self) -> tuple[Voidance, ...]:
        """See `shell_parts.ServiceLog.voided`."""
        return await read_voided(self._reader, self.name)

    async def first_seq(self) -> int:
        """See `shell_parts.ServiceLog.first_seq`."""
        info = await jsapi.stream_info(self._reader, self.name.stream)
        if info is None:
            raise ApiError(jsapi.NO_STREAM, f"there is no stream {self.name.stream}; was bootstrap run?")
        return max(1, info.state.first_seq)

    async def newest_term(self, service: str) -> int:
        """See `shell_parts.ServiceLog.newest_term`. From the stream's leader, so it sees every acknowledged fence."""
        newest = await newest_fence(self._reader, self.name, service)
        return 0 if newest is None else newest.fence.term

    async def _open(self, after_seq: int) -> NatsReader:
        return await self._log.reader(after_seq=after_seq)


def log_of(role: StreamRole, cluster: str) -> LogName:
    """The log of that role, as a stack of one cluster has it."""
    match role:
        case StreamRole.LOG:
            return cluster_log(cluster)
        case StreamRole.FED:
            return FED_LOG
        case StreamRole.FED_UP:
            return FED_UP_LOG
