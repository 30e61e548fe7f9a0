"""The gateway as a process runs it: real bus, real Redis, real HTTP, the SDK at the other end."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from nats.aio.client import Client

from kit.projector import Story, a_job
from kit.servers import CLUSTER, DECLARATIONS, NatsServer, running_nats
from muster.bus.service import LeaderHandle
from muster.bus.settings import Settings
from muster.bus.streams import bootstrap
from muster.client import JobSpec, Muster, Phase, RefusedError, Retry, Role, TaskGroup, TokenRecord
from muster.core.instant import Instant
from muster.gateway.app import services
from muster.gateway.declaration import DECLARATION
from muster.projector.core import ProjectorCore
from muster.projector.sink import RedisSink, stream_identity
from muster.schemas.access import TOKENS_BUCKET, token_hash
from muster.schemas.readmodel import read_model
from muster.schemas.subjects import cluster_log
from muster.stack.ports import free_port

pytestmark = pytest.mark.connected

LOG = cluster_log(CLUSTER)
SPEC = JobSpec(name="train", team="blue", task_groups=(TaskGroup(gpus=1),))
PATIENT = Retry(attempts=50, first_s=0.05, most_s=0.1)


class Stack:
    """A running gateway, and a projection that the test folds facts into."""

    def __init__(self, server: NatsServer, settings: Settings) -> None:
        self.server = server
        self.settings = settings
        self.connections: list[Client] = []
        self.core = ProjectorCore(CLUSTER)
        self.sink = RedisSink(redis_url=settings.redis_url, model=read_model(LOG), identity=stream_identity(LOG.stream))

    async def connect(self, user: str) -> Client:
        """Like the host, who also closes what it opened."""
        self.connections.append(await self.server.connect(user))
        return self.connections[-1]

    async def fold(self, story: Story) -> None:
        """What the story tells that was not folded yet."""
        facts = story.facts[self.core.last_seq :]
        for fact in facts:
            self.core.apply(fact)
        await self.sink.after_fold(facts, last_seq=self.core.last_seq, now=Instant(0))
        await self.sink.stored()

    def sdk(self) -> Muster:
        return Muster(f"http://127.0.0.1:{self.settings.http_port}", "root", retry=PATIENT)


@pytest.fixture
def server() -> Iterator[NatsServer]:
    others = [declaration for declaration in DECLARATIONS if declaration.service != "gateway"]
    with running_nats(declarations=[DECLARATION, *others]) as server:
        yield server


@pytest.fixture
async def stack(server: NatsServer, redis_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    settings = Settings(
        state_dir=tmp_path,
        credentials_dir=server.credentials_dir,
        cluster=CLUSTER,
        redis_url=redis_url,
        http_port=free_port(),
    )
    stack = Stack(server, settings)
    maker = await server.connect("bootstrap")
    await bootstrap(maker, settings)
    record = TokenRecord(principal="root", role=Role.ADMIN)
    tokens = await maker.jetstream().key_value(TOKENS_BUCKET)
    await tokens.put(token_hash("root"), record.model_dump_json().encode())
    await maker.close()
    projector = await server.connect("projector")
    await stack.sink.open(stack.core, projector, LeaderHandle())
    (gateway,) = services(settings)
    running = asyncio.create_task(gateway.run(stack.connect, settings))
    yield stack
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await stack.sink.close()
    for connection in (*stack.connections, projector):
        await connection.close()


async def test_a_job_goes_in_is_seen_and_is_watched_to_its_end(stack: Stack) -> None:
    story = Story()
    story.node("n1")
    story.queue("blue")
    await stack.fold(story)
    async with stack.sdk() as muster:
        job = await muster.submit(SPEC, idempotency_key="k")
        assert (await muster.submit(SPEC, idempotency_key="k")).id == job.id
        assert (await muster.get(job.id)).phase is Phase.SUBMITTED
        with pytest.raises(RefusedError, match="unknown queue"):
            await muster.submit(SPEC.model_copy(update={"team": "red"}))
        assert [node.name for node in await muster.nodes()] == ["n1"]

        other = a_job(1)
        story.routed(other)
        story.queued(other)
        await stack.fold(story)
        names: list[str] = []
        async for fact in muster.watch(other.id):
            names.append(fact.name)
            if fact.name == "queued":
                story.ended(other)
                await stack.fold(story)
        assert names == ["routed", "queued", "succeeded"]
        assert [row.name for row in await muster.list(phase=Phase.SUCCEEDED)] == ["job-1"]
