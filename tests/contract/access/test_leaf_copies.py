"""A centre's copies of a cell's log and checkpoints, tried on real nats-servers, with the centre's own users."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from nats.aio.client import Client

from kit.stack.leaf import ANYBODY, CELL, Joined, joined
from kit.waiting import until_async
from muster.bus import jsapi
from muster.bus.checkpoint import Checkpoints, contributors, encode_part
from muster.bus.checkpoint_store import CopiedCheckpoints, NatsCheckpoints
from muster.bus.clock import SystemTime
from muster.core import Draft, Instant
from muster.federation.copier import trim_copy
from muster.schemas.facts.queue import QueueSpec, QueueState
from muster.schemas.registry import StreamRole
from muster.schemas.subjects import FED_UP_LOG, cluster_log

pytestmark = pytest.mark.connected

LOG = cluster_log(CELL)
ENDED = f"muster.{CELL}.scheduler.job.{{}}.succeeded"
FACTS = 20
DAY_S = 86_400.0


@dataclass
class Both:
    """Somebody in the cell with every right, and the services of the centre that use the copies."""

    brokers: Joined
    cell: Client
    projector: Client
    federation: Client

    async def write(self, ids: range) -> None:
        """Facts in the cell's log, as good as any."""
        for number in ids:
            await self.cell.jetstream().publish(ENDED.format(number), b"body", headers={"Nats-Msg-Id": str(number)})

    async def record(self, seq: int, *, size: int = 1) -> None:
        """A whole checkpoint in the cell, and wait until the centre has it."""
        store = Checkpoints(NatsCheckpoints(self.cell), LOG)
        for service in contributors(StreamRole.LOG):
            queues = range(size if service == "scheduler" else 0)
            drafts = [
                Draft("queue", f"q{n}", "state-recorded", QueueState(spec=QueueSpec(name=f"q{n}"))) for n in queues
            ]
            body = encode_part(LOG, service, seq=seq, time=Instant(1), drafts=drafts)
            await store.upload(service, seq=seq, time=Instant(1), body=body)

    async def knows(self, seq: int) -> bool:
        """Whether the centre has the checkpoint."""
        pointer, _ = await CopiedCheckpoints(self.projector, CELL).pointer(LOG.stream)
        return seq in {one.seq for one in pointer.checkpoints}

    async def trim(self, *, keep_s: float) -> int:
        """As the centre does now and then."""
        return await trim_copy(self.federation, CELL, keep_s=keep_s, now=Instant(SystemTime().wall()))

    async def reported(self, count: int) -> bool:
        """Whether the federation has taken so many reports."""
        info = await jsapi.stream_info(self.federation, FED_UP_LOG.stream)
        return info is not None and info.state.messages == count and not any(one.lag for one in info.sources)


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[Both]:
    async with joined(tmp_path) as brokers:
        await brokers.bootstrap()
        clients = (
            await brokers.cell.connect(ANYBODY.name),
            await brokers.centre.connect("projector"),
            await brokers.centre.connect("federation"),
        )
        yield Both(brokers, *clients)
        await asyncio.gather(*(client.close() for client in clients))


async def first_seq(client: Client) -> int:
    info = await jsapi.stream_info(client, LOG.stream)
    assert info is not None
    return info.state.first_seq


async def recorded_twice(both: Both) -> None:
    """Facts, and checkpoints after the tenth and the fifteenth; the centre has everything."""
    await both.write(range(FACTS))
    await both.brokers.copied(FACTS)
    await both.record(10)
    await both.record(15)
    await until_async(lambda: both.knows(15))
    await until_async(lambda: both.reported(FACTS))


async def test_who_folds_a_copy_begins_with_the_checkpoint_of_its_original(both: Both) -> None:
    await both.write(range(FACTS))
    await both.brokers.copied(FACTS)
    await both.record(FACTS, size=20_000)
    await until_async(lambda: both.knows(FACTS))
    here = Checkpoints(CopiedCheckpoints(both.projector, CELL), LOG)

    async def is_whole() -> bool:
        found, facts = await here.recover("projector", ())
        return found is not None and len(facts) == 20_000

    await until_async(is_whole)
    there = Checkpoints(NatsCheckpoints(both.cell), LOG)
    assert await here.recover("projector", ()) == await there.recover("projector", ())


async def test_a_checkpoint_of_facts_that_the_copy_does_not_have_yet_is_not_used(both: Both) -> None:
    await both.write(range(FACTS))
    await both.brokers.copied(FACTS)
    await both.record(FACTS)
    await both.record(FACTS + 1)
    await until_async(lambda: both.knows(FACTS))
    assert not await both.knows(FACTS + 1)
    await both.write(range(FACTS, FACTS + 1))
    await until_async(lambda: both.knows(FACTS + 1))


async def test_a_copy_is_trimmed_to_the_older_checkpoint_and_goes_on_and_the_log_itself_stays(both: Both) -> None:
    await recorded_twice(both)
    assert await both.trim(keep_s=DAY_S) == 0, "facts of the last day are kept"
    assert await both.trim(keep_s=0.0) == 10
    assert await first_seq(both.projector) == 11
    assert await first_seq(both.cell) == 1
    assert await both.trim(keep_s=0.0) == 0, "nothing is left to forget"
    await both.write(range(FACTS, 2 * FACTS))
    await until_async(lambda: both.reported(2 * FACTS))


async def test_what_a_webhook_has_yet_to_be_told_stays(both: Both) -> None:
    centre = await both.brokers.centre.connect(ANYBODY.name)
    config = {"durable_name": "webhook-x", "ack_policy": "explicit", "deliver_policy": "all", "max_ack_pending": 1}
    await jsapi.call(centre, f"CONSUMER.CREATE.{LOG.stream}.webhook-x", {"stream_name": LOG.stream, "config": config})
    await recorded_twice(both)
    assert await both.trim(keep_s=0.0) == 0
    place = await centre.jetstream().pull_subscribe_bind(consumer="webhook-x", stream=LOG.stream)
    for _ in range(4):
        (message,) = await place.fetch(1, timeout=10)
        await message.ack_sync()
    assert await both.trim(keep_s=0.0) == 4
    await centre.close()
