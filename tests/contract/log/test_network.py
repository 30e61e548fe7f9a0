"""What the network, the broker and a crash do to a log, and that nothing is lost or doubled by it."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from nats.aio.client import Client

from contract.log.nats_bench import NatsBench, nats_bench
from contract.log.suite import CLUSTER, JOB, fold, leader, numbers, queued, read_to
from kit.servers import NatsServer
from muster.bus import jsapi
from muster.bus import reader as reader_module
from muster.bus.appender import NatsAppender
from muster.bus.feed import Feed
from muster.bus.nats_log import NatsLog
from muster.bus.ports import LogError, LogUnavailableError, StaleFenceError
from muster.core.fact import Draft
from muster.core.instant import NS_PER_S
from muster.schemas.subjects import DEAD_STREAM

pytestmark = pytest.mark.connected

WRITTEN = 6000
FORGETS_AFTER_NS = 100_000_000  # the least that a duplicate window may be
BATCH = 60


@pytest.fixture
async def bench(nats_plain_shared: NatsServer) -> AsyncIterator[NatsBench]:
    async with nats_bench(nats_plain_shared.url) as bench:
        yield bench


class Swallow:
    """Drops each of the given messages once, as a bad network would."""

    def __init__(self, *seqs: int) -> None:
        self._left = set(seqs)

    def __call__(self, seq: int) -> bool:
        if seq not in self._left:
            return False
        self._left.remove(seq)
        return True


async def consumers(bench: NatsBench) -> list[str]:
    """Names of the log's consumers."""
    body = await jsapi.call(bench.connection, f"CONSUMER.NAMES.{bench.name.stream}")
    return [str(name) for name in json.loads(body).get("consumers") or ()]


async def test_a_hole_in_what_was_delivered_is_read_again(bench: NatsBench) -> None:
    bench.drop = Swallow(5, 6, 9)
    pen = await leader(bench.other())
    await pen.append([queued(n) for n in range(10)], folded_seq=2)

    assert numbers(await fold(bench.log)) == list(range(10))
    assert bench.counters.gaps >= 1


async def test_a_swallowed_last_batch_is_found_when_the_log_is_quiet(bench: NatsBench) -> None:
    reader = await bench.log.reader(after_seq=0)
    await reader.close()
    bench.drop = Swallow(3, 4, 5)
    reader = await bench.log.reader(after_seq=0)
    pen = await leader(bench.other())
    await read_to(reader, 2)
    await pen.append([queued(1), queued(2)], folded_seq=2)

    assert numbers(await read_to(reader, 5)) == [1, 2]
    assert (bench.counters.gaps, bench.counters.recreated) == (1, 1)
    await reader.close()


@pytest.fixture
def a_server_that_missed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consumers say that there is no more, as one does whose server of a cluster has not what the leader has."""

    async def nothing(_: Feed, grace_s: float) -> str:
        del grace_s
        return ""

    monkeypatch.setattr(Feed, "behind", nothing)
    monkeypatch.setattr(reader_module, "IDLE_S", 0.05)
    monkeypatch.setattr(reader_module, "LEADER_ASKED_EVERY", 1)


@pytest.mark.usefixtures("a_server_that_missed_it")
async def test_what_the_consumers_server_missed_is_read_from_another(bench: NatsBench) -> None:
    bench.drop = Swallow(3, 4, 5)
    reader = await bench.log.reader(after_seq=0)
    pen = await leader(bench.other())
    await read_to(reader, 2)
    await pen.append([queued(1), queued(2)], folded_seq=2)

    assert numbers(await read_to(reader, 5)) == [1, 2]
    assert bench.counters.recreated == 1
    await reader.close()


@pytest.mark.usefixtures("a_server_that_missed_it")
async def test_an_end_that_was_deleted_is_looked_for_once(bench: NatsBench) -> None:
    pen = await leader(bench.other())
    await pen.append([queued(1)], folded_seq=2)
    last = await jsapi.message_at(bench.second, bench.name.stream, 4)
    assert last is not None
    await jsapi.call(bench.second, f"STREAM.PURGE.{bench.name.stream}", {"filter": last.subject})
    reader = await bench.log.reader(after_seq=0)

    await read_to(reader, 3)
    assert (await reader.read(limit=10, timeout_s=1.0)).facts == ()
    assert bench.counters.recreated == 1
    await reader.close()


async def test_a_quiet_reader_without_loss_keeps_its_consumer(bench: NatsBench) -> None:
    pen = await leader(bench.other())
    reader = await bench.log.reader(after_seq=0)
    await read_to(reader, 2)
    before = await consumers(bench)

    batch = await reader.read(limit=10, timeout_s=1.5)
    await pen.append([queued(1)], folded_seq=2)

    assert batch.facts == ()
    assert numbers(await read_to(reader, 4)) == [1]
    assert await consumers(bench) == before
    assert bench.counters.recreated == 0
    await reader.close()
    assert await consumers(bench) == []


async def test_a_deleted_consumer_is_made_anew(bench: NatsBench) -> None:
    pen = await leader(bench.other())
    reader = await bench.log.reader(after_seq=0)
    await read_to(reader, 2)
    [name] = await consumers(bench)

    await jsapi.call(bench.second, f"CONSUMER.DELETE.{bench.name.stream}.{name}")
    await pen.append([queued(1)], folded_seq=2)

    assert numbers(await read_to(reader, 4)) == [1]
    assert bench.counters.recreated == 1
    await reader.close()


async def test_a_broken_connection_is_read_on_after_it_is_made_again(
    bench: NatsBench, caplog: pytest.LogCaptureFixture
) -> None:
    pen = await leader(bench.other())
    reader = await bench.log.reader(after_seq=0)
    await read_to(reader, 2)

    cut(bench.connection)
    await pen.append([queued(1)], folded_seq=2)

    assert numbers(await read_to(reader, 4)) == [1]
    await reader.read(limit=1, timeout_s=0)  # the old consumer may have delivered before anybody saw the cut
    assert bench.counters.recreated == 1
    assert ": reconnected" in caplog.text  # at once, not after an idle second
    await reader.close()


class Forgetful(Client):
    """A connection that loses the first request for messages."""

    lost = 0

    async def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        if "CONSUMER.MSG.NEXT" in subject and not self.lost:
            self.lost += 1
        else:
            await super().publish(subject, payload, reply, headers)


async def test_a_lost_request_for_messages_is_noticed(bench: NatsBench) -> None:
    connection = Forgetful()
    await connection.connect(bench.url)
    await leader(bench.other())

    facts = await fold(NatsLog(connection, bench.name, counters=bench.counters))

    assert [fact.seq for fact in facts] == [1, 2]
    assert (connection.lost, bench.counters.recreated) == (1, 1)
    await connection.close()


def cut(connection: Client) -> None:
    """End the connection as a network does that loses it."""
    connection._transport._io_writer.transport.abort()


async def test_a_dead_letter_stays_single_when_its_id_is_forgotten(bench: NatsBench) -> None:
    info = await jsapi.stream_info(bench.connection, DEAD_STREAM)
    assert info is not None
    await jsapi.call(
        bench.connection, f"STREAM.UPDATE.{DEAD_STREAM}", {**info.config, "duplicate_window": FORGETS_AFTER_NS}
    )
    seq = await bench.put(f"muster.{CLUSTER}.scheduler.job.{JOB}.queued", None, b"")
    await leader(bench.log)

    for _ in range(2):
        await fold(bench.log)
        await asyncio.sleep(4 * FORGETS_AFTER_NS / NS_PER_S)

    assert await bench.dead() == [seq]


async def test_reads_far_more_than_one_buffer_holds(bench: NatsBench) -> None:
    pen = await leader(bench.other())
    await pen.append([queued(n) for n in range(5000)], folded_seq=2)

    assert numbers(await fold(bench.log)) == list(range(5000))
    assert bench.counters.recreated == 0


def forget_answer(pen: NatsAppender, *, fence_seq: int) -> None:
    """Put a pen back to before its last append, as if the broker's answer had been lost."""
    pen._fence_seq, pen._committed_seq = fence_seq, 0


async def test_a_batch_whose_answer_was_lost_is_recognised(bench: NatsBench) -> None:
    pen = bench.log.appender("scheduler")
    started = await pen.start_term(term=1, holder="a")
    drafts = [queued(n) for n in range(5)]
    stored = await pen.append(drafts, folded_seq=2)
    forget_answer(pen, fence_seq=started.first_seq)

    assert await pen.append(drafts, folded_seq=2) == stored

    assert numbers(await fold(bench.log)) == list(range(5))
    assert bench.counters.resolved == 1


@pytest.mark.parametrize(
    "retried",
    [[queued(0), queued(1)], [queued(n) for n in range(4)], [queued(0), queued(1), queued(99)]],
    ids=["fewer", "more", "other"],
)
async def test_another_decision_under_the_same_ids_is_not_taken_for_stored(
    bench: NatsBench, retried: list[Draft]
) -> None:
    pen = bench.log.appender("scheduler")
    started = await pen.start_term(term=1, holder="a")
    await pen.append([queued(n) for n in range(3)], folded_seq=2)
    forget_answer(pen, fence_seq=started.first_seq)

    with pytest.raises(StaleFenceError):
        await pen.append(retried, folded_seq=2)

    assert numbers(await fold(bench.log)) == [0, 1, 2]
    assert bench.counters.resolved == 0


async def lost(connection: Client) -> None:
    """Until the client knows that its connection is gone."""
    async with asyncio.timeout(10):
        while connection.is_connected:  # noqa: ASYNC110 - the client has no event for it
            await asyncio.sleep(0.01)


async def found(connection: Client) -> None:
    """Wait until the client has a server again: closed while it tries to connect, nats-py may try for ever."""
    async with asyncio.timeout(10):
        while not connection.is_connected:  # noqa: ASYNC110 - the client has no event for it
            await asyncio.sleep(0.01)


async def test_without_a_server_an_append_is_unavailable_and_a_read_is_empty(nats_plain: NatsServer) -> None:
    async with nats_bench(nats_plain.url) as bench:
        pen = await leader(bench.log)
        reader = await bench.log.reader(after_seq=2)
        nats_plain.kill()
        await lost(bench.connection)

        with pytest.raises(LogUnavailableError):
            await pen.append([queued(1)], folded_seq=2)
        batch = await reader.read(limit=1, timeout_s=0.2)

        assert (batch.facts, batch.last_seq) == ((), 2)
        await asyncio.to_thread(nats_plain.restart)
        for one in (bench.connection, bench.second):
            await found(one)


async def test_killing_the_server_in_mid_stream_loses_and_doubles_nothing(nats_plain: NatsServer) -> None:
    async with nats_bench(nats_plain.url) as bench:
        reader = await bench.log.reader(after_seq=0)
        writing = asyncio.create_task(write_all(bench))
        seen: list[int] = []
        for milestone in (WRITTEN // 4, WRITTEN // 2, WRITTEN):
            while len(seen) < milestone:
                seen.extend(numbers(list((await reader.read(limit=500, timeout_s=5)).facts)))
            if milestone < WRITTEN:
                await asyncio.to_thread(nats_plain.restart)
        await writing
        await reader.close()

        assert seen == list(range(WRITTEN))
        assert bench.counters.recreated >= 2


async def write_all(bench: NatsBench) -> None:
    """Write the numbers as a shell does: after every refusal it folds to the head and decides anew."""
    log = bench.other()
    pen = await leader(log)
    reader = await log.reader(after_seq=0)
    folded_seq, done = 0, 0
    while done < WRITTEN:
        try:
            head = await reader.head()
            while folded_seq < head:
                batch = await reader.read(limit=1000, timeout_s=5)
                folded_seq = batch.last_seq
                done = max([done, *(number + 1 for number in numbers(list(batch.facts)))])
            if done < WRITTEN:
                await pen.append([queued(done + n) for n in range(BATCH)], folded_seq=folded_seq)
        except LogError:
            await asyncio.sleep(0.02)  # the server is away: nothing to wait for but time
    await reader.close()
