"""The projector's sinks over a real broker and a real Redis, and dashboards that look at them."""

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from nats.aio.client import Client
from nats.aio.msg import Msg
from redis.asyncio import Redis
from redis.exceptions import RedisError

from kit.observe.dashboards import Dashboard
from kit.servers import CLUSTER, NatsServer
from kit.waiting import ASKING_POLL_S, until, until_async
from muster.bus.clock import SystemTime
from muster.bus.jwt import mint_view_user
from muster.bus.service import LeaderHandle
from muster.core.fact import Fact
from muster.core.instant import Instant
from muster.gateway.ports import UnreachableError
from muster.gateway.snapshot import Snapshots, audiences_of
from muster.projector.app import Sinks
from muster.projector.core import FedProjectorCore, ProjectorCore
from muster.projector.sink import OutputSink, RedisSink
from muster.projector.telemetry import TelemetrySink
from muster.projector.view import ViewSink
from muster.schemas.live import FED_CLUSTER, LiveSlice, Snapshot
from muster.schemas.readmodel import ReadModel

MODEL = ReadModel(CLUSTER)
FED = ReadModel(FED_CLUSTER)


@dataclass
class Looking:
    """A dashboard at its connection."""

    client: Client
    dashboard: Dashboard
    snapshots: Snapshots
    audiences: tuple[str, ...]
    record_attempt: list[Msg] = field(default_factory=list)

    async def listen(self) -> None:
        for cluster in (CLUSTER, FED_CLUSTER):
            for audience in self.audiences:
                await self.client.subscribe(f"view.{cluster}.{audience}.>", cb=self._hear)
        await self.client.flush()

    async def _hear(self, message: Msg) -> None:
        self.record_attempt.append(message)
        if message.subject.endswith(".slice"):
            self.dashboard.hear(LiveSlice.model_validate_json(message.data))

    async def join(self) -> Snapshot:
        """Take a snapshot. Raises UnreachableError."""
        image = await self.snapshots.image()
        snapshot = Snapshot.model_validate_json(image.whole(self.audiences))
        self.dashboard.begin(snapshot)
        return snapshot

    async def catch_up(self, *, seq: int) -> None:
        """Until everything of the cluster's log up to `seq` is seen, with as many snapshots as that takes."""
        async with asyncio.timeout(20):
            while self.dashboard.wants_snapshot or self.dashboard.seq(CLUSTER, "public") < seq:
                if self.dashboard.wants_snapshot:
                    with suppress(UnreachableError):
                        await self.join()
                await asyncio.sleep(ASKING_POLL_S)

    def subjects(self, what: str) -> list[str]:
        return [message.subject for message in self.record_attempt if f".{what}" in message.subject]


@dataclass
class LiveHarness:
    """One cluster's projector, the federation's, and the gateway's snapshots."""

    server: NatsServer
    redis_url: str
    projector: Client
    redis: Redis
    snapshots: Snapshots
    core: ProjectorCore = field(default_factory=lambda: ProjectorCore(CLUSTER))
    sinks: Sinks | None = None
    fed_sinks: Sinks | None = None
    leads: bool = True
    clients: list[Client] = field(default_factory=list)

    @classmethod
    async def start(cls, server: NatsServer, redis_url: str) -> "LiveHarness":
        redis = Redis.from_url(redis_url, socket_timeout=1.0, socket_connect_timeout=1.0)
        snapshots = Snapshots(redis, clusters={CLUSTER: MODEL}, fed=FED, time=SystemTime())
        harness = cls(server, redis_url, await server.connect("projector"), redis, snapshots)
        harness.clients.append(harness.projector)
        harness.fed_sinks = Sinks(harness._redis_sink(FED), ViewSink(FED_CLUSTER, "FED", SystemTime()))
        await harness.fed_sinks.open(FedProjectorCore(), harness.projector, LeaderHandle())
        return harness

    async def lead(self, facts: Sequence[Fact] = ()) -> None:
        """A projector that folded these takes the lead."""
        if self.sinks is not None:
            await self.sinks.close()
        self.core = ProjectorCore(CLUSTER)
        for fact in facts:
            self.core.apply(fact)
        self.sinks = Sinks(
            self._redis_sink(MODEL),
            ViewSink(CLUSTER, f"LOG_{CLUSTER}", SystemTime()),
            TelemetrySink(CLUSTER, self.redis_url, MODEL),
            OutputSink(CLUSTER, SystemTime()),
        )
        await self.sinks.open(self.core, self.projector, LeaderHandle(leads=lambda: self.leads))
        await self.projector.flush()

    async def fold(self, facts: Sequence[Fact]) -> None:
        assert self.sinks is not None, "somebody leads"
        for fact in facts:
            self.core.apply(fact)
        await self.sinks.after_fold(facts, last_seq=self.core.last_seq, now=Instant(0))

    async def stored(self, seq: int) -> None:
        """Until the read model holds everything up to there."""

        async def holds() -> bool:
            try:
                found = await self.redis.execute_command("HGET", MODEL.key("marker"), "seq")  # type: ignore[no-untyped-call]
            except (RedisError, OSError):
                return False
            return int(found or -1) >= seq

        await until_async(holds, patience_s=20)

    async def look(self, *teams: str) -> Looking:
        """A dashboard of these teams (`*`: of all) that listens, and has yet to join."""
        credential = mint_view_user(
            self.server.view_signer,
            clusters=(CLUSTER,),
            teams=teams,
            now_s=int(time.time()),
            expires_in_s=60,
            entropy=os.urandom(32),
        )
        client = await self.server.connect_view(credential)
        self.clients.append(client)
        audiences = ("*",) if "*" in teams else audiences_of(teams=teams, sees_all=False)
        looking = Looking(client, Dashboard(), self.snapshots, audiences)
        await looking.listen()
        return looking

    async def publish(self, subject: str, body: bytes, *, user: str = "agent") -> None:
        client = await self.server.connect(user)
        await client.publish(subject, body)
        await client.close()

    async def end(self) -> None:
        for sinks in (self.sinks, self.fed_sinks):
            if sinks is not None:
                await sinks.close()
        for client in self.clients:
            if not client.is_closed:
                await client.close()
        await self.redis.aclose()

    def _redis_sink(self, model: ReadModel) -> RedisSink:
        async def identity(_: Client) -> str:
            return f"log of {model.scope}"

        return RedisSink(redis_url=self.redis_url, model=model, identity=identity)


async def record_attempt(looking: Looking, what: str) -> Msg:
    """The first message whose subject ends so."""
    found: list[Msg] = []

    def came() -> bool:
        found[:] = [message for message in looking.record_attempt if message.subject.endswith(f".{what}")]
        return bool(found)

    await until(came, patience_s=20)
    return found[0]
