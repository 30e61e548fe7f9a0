"""Hosting services in tests over a real nats-server, as `muster serve` does."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from nats.aio.client import Client

from kit.servers import CLUSTER, NatsServer
from kit.toys import agent_fact
from kit.waiting import until
from muster.bus.nats_log import NatsLog
from muster.bus.process import Process
from muster.bus.requests import append_single
from muster.bus.service import CoreService, Hosted
from muster.bus.settings import BusSettings, Settings
from muster.bus.shell import Shell
from muster.bus.streams import bootstrap
from muster.core.fact import Draft, Fact
from muster.schemas.facts.control import CheckpointRequested
from muster.schemas.ids import request_fact_id
from muster.schemas.subjects import cluster_log

LOG = cluster_log(CLUSTER)
LEASE_TTL_S = 1.0


@dataclass
class Hosting:
    """One process's worth of services, in this process."""

    process: Process
    stack: AsyncExitStack
    ended: bool = False

    @property
    def shells(self) -> list[Shell]:
        return self.process.shells

    async def end(self) -> None:
        if not self.ended:
            self.ended = True
            await self.stack.aclose()


@dataclass
class HostedServices:
    """A stack's streams on a real nats-server, and the services that a test hosts over them in its own process."""

    server: NatsServer
    hostings: list[Hosting] = field(default_factory=list)
    clients: dict[str, Client] = field(default_factory=dict)
    metrics_port: int = 0

    @property
    def settings(self) -> Settings:
        return Settings(
            state_dir=self.server.directory,
            cluster=CLUSTER,
            nats_url=self.server.url,
            credentials_dir=self.server.credentials_dir,
            metrics_port=self.metrics_port,
            bus=BusSettings(lease_ttl_s=LEASE_TTL_S),
        )

    async def prepare(self) -> None:
        connection = await self.server.connect("bootstrap")
        await bootstrap(connection, self.settings)
        await connection.close()

    async def host(self, *services: CoreService | Hosted) -> Hosting:
        stack = AsyncExitStack()
        hosting = Hosting(Process(services, self.settings, stack), stack)
        self.hostings.append(hosting)
        await hosting.process.start()
        return hosting

    async def client(self, user: str) -> Client:
        if user not in self.clients:
            self.clients[user] = await self.server.connect(user)
        return self.clients[user]

    async def store(self, writer: str, draft: Draft, fact_id: str) -> int:
        """Store one fact as that writer."""
        client = await self.client(writer)
        stored = await append_single(client, LOG, service=writer, draft=draft, fact_id=fact_id)
        assert stored.seq, stored
        return stored.seq

    async def join(self, *nodes: str) -> int:
        """Store `joined` of nodes; the last one's sequence."""
        return [await self.store("agent", *agent_fact(node)) for node in nodes][-1]

    async def request_checkpoint(self) -> int:
        draft = Draft("log", "checkpoint", "checkpoint-requested", CheckpointRequested())
        return await self.store("scheduler", draft, request_fact_id("checkpoint", str(len(await self.facts()))))

    async def facts(self, name: str = "") -> list[Fact]:
        """What stands in the log."""
        reader = await NatsLog(await self.client("reader"), LOG).reader(after_seq=0)
        found: list[Fact] = []
        head, seq = await reader.head(), 0
        while seq < head:
            batch = await reader.read(limit=1000, timeout_s=1)
            found += batch.facts
            seq = batch.last_seq
        await reader.close()
        return [fact for fact in found if name in ("", fact.name)]

    async def end(self) -> None:
        for hosting in self.hostings:
            await hosting.end()
        for client in self.clients.values():
            await client.close()


async def until_leading(shells: Sequence[Shell]) -> Shell:
    """The one that leads, once one does."""
    await until(lambda: any(shell.leading for shell in shells))
    return next(shell for shell in shells if shell.leading)
