"""A log on a real nats-server, and what a test does to it from outside."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import nats
from nats.aio.client import Client

from contract.log.suite import CLUSTER
from muster.bus import jsapi, streams
from muster.bus.nats_log import NatsLog
from muster.bus.ports import LogCounters
from muster.bus.settings import BusSettings, Settings
from muster.schemas.subjects import DEAD_STREAM, LogName, cluster_log


def settings(**bus: object) -> Settings:
    """A stack's settings; only cluster and bus matter here."""
    return Settings(
        state_dir=Path("unused"), credentials_dir=Path("unused"), cluster=CLUSTER, bus=BusSettings.model_validate(bus)
    )


async def connect(url: str) -> Client:
    """A connection as a service has it: it reconnects for ever, and soon."""
    return await nats.connect(url, max_reconnect_attempts=-1, reconnect_time_wait=0.05, error_cb=_ignore)


async def _ignore(_: Exception) -> None:
    """nats-py tells here of every lost connection, which these tests cause."""


async def clear(client: Client) -> None:
    """Delete every stream."""
    for stream in streams.plan(settings()):
        if await jsapi.stream_info(client, stream.name) is not None:
            await jsapi.call(client, f"STREAM.DELETE.{stream.name}")


@dataclass
class NatsBench:
    """One log with two connections, as two processes have it."""

    url: str
    connection: Client
    second: Client
    name: LogName = field(default_factory=lambda: cluster_log(CLUSTER))
    counters: LogCounters = field(default_factory=LogCounters)
    drop: Callable[[int], bool] | None = None

    @property
    def log(self) -> NatsLog:
        return NatsLog(self.connection, self.name, counters=self.counters, drop=self.drop)

    def other(self) -> NatsLog:
        return NatsLog(self.second, self.name, counters=self.counters)

    async def limit(self, bytes_max: int) -> None:
        """Change the size of the log's stream."""
        info = await jsapi.stream_info(self.connection, self.name.stream)
        assert info is not None
        await jsapi.call(self.connection, f"STREAM.UPDATE.{self.name.stream}", {**info.config, "max_bytes": bytes_max})

    async def full_after(self, messages: int) -> NatsLog:
        await self.limit(messages * 1024)
        return self.log

    async def put(self, subject: str, headers: dict[str, str] | None, body: bytes) -> int:
        answer = await jsapi.ask(self.connection, subject, body, headers=headers)
        return jsapi.PubAck.model_validate_json(jsapi.check(answer.data)).seq

    async def purge(self, up_to_seq: int) -> None:
        await jsapi.call(self.connection, f"STREAM.PURGE.{self.name.stream}", {"seq": up_to_seq + 1})

    async def dead(self) -> list[int]:
        info = await jsapi.stream_info(self.connection, DEAD_STREAM, subjects="dead.>")
        assert info is not None
        return [int(subject.rpartition(".")[2]) for subject, count in info.state.subjects.items() for _ in range(count)]


@asynccontextmanager
async def nats_bench(url: str) -> AsyncIterator[NatsBench]:
    """Fresh streams on a server that may have been used before."""
    connection, second = await connect(url), await connect(url)
    try:
        await clear(connection)
        await streams.bootstrap(connection, settings())
        yield NatsBench(url, connection, second)
    finally:
        await connection.close()
        await second.close()
