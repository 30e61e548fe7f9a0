"""A log goes through a file and comes back; its beginning is forgotten only where nobody needs it."""

import asyncio
import gzip
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contract.log.nats_bench import NatsBench, clear, nats_bench, settings
from contract.log.suite import CLUSTER, JOB, fold, leader, numbers, queued
from kit.servers import NatsServer
from muster.bus import jsapi, streams
from muster.bus.archive import FENCE_LIVE_S, export_log, import_log, trim
from muster.bus.ports import ArchiveError, TrimRefusedError
from muster.core.instant import Instant, after
from muster.schemas.subjects import FED_LOG

pytestmark = pytest.mark.connected


@pytest.fixture
async def bench(nats_plain_shared: NatsServer) -> AsyncIterator[NatsBench]:
    async with nats_bench(nats_plain_shared.url) as bench:
        yield bench


async def renew(bench: NatsBench) -> None:
    """Delete all streams and make them anew, empty."""
    await clear(bench.connection)
    await streams.bootstrap(bench.connection, settings())


async def stored_time(bench: NatsBench, seq: int) -> Instant:
    message = await jsapi.message_at(bench.connection, bench.name.stream, seq)
    assert message is not None
    return message.time


async def test_a_log_comes_back_from_its_archive_as_it_was(bench: NatsBench, tmp_path: Path) -> None:
    pen = await leader(bench.log)
    await pen.append([queued(n) for n in range(2000)], folded_seq=2)
    await bench.put(f"muster.{CLUSTER}.scheduler.job.{JOB}.teleported", None, b"\xff\x00")
    before = await fold(bench.log)
    told: list[tuple[int, int]] = []

    archived = await export_log(bench.connection, bench.name, tmp_path / "log.gz")
    await renew(bench)
    count = await import_log(
        bench.connection, bench.name, tmp_path / "log.gz", progress=lambda done, of: told.append((done, of))
    )

    after_restore = await fold(bench.log)
    assert [(f.seq, f.id, f.payload) for f in after_restore] == [(f.seq, f.id, f.payload) for f in before]
    assert (archived.messages, count) == (before[-1].seq + 1, before[-1].seq + 1)
    assert told[-1] == (count, count)
    odd = await jsapi.message_at(bench.connection, bench.name.stream, count)
    assert odd is not None
    assert odd.body == b"\xff\x00"


async def test_a_restored_log_does_not_take_a_second_time_what_it_took_from_the_federation(
    bench: NatsBench, tmp_path: Path
) -> None:
    routed = f"muster.fed.federation.{CLUSTER}.job.{{}}.routed"
    for job in ("A", "B"):
        await bench.put(routed.format(job), {"ce-id": job}, b"{}")
    await until_head(bench, 2)
    for log in (bench.name, FED_LOG):
        await export_log(bench.connection, log, tmp_path / log.stream)
    await renew(bench)

    for log in (bench.name, FED_LOG):
        await import_log(bench.connection, log, tmp_path / log.stream)
    await streams.bootstrap(bench.connection, settings())
    await bench.put(routed.format("C"), {"ce-id": "C"}, b"{}")
    await until_head(bench, 3)

    stored = [await jsapi.message_at(bench.connection, bench.name.stream, seq) for seq in (1, 2, 3)]
    assert [message and message.headers["ce-id"] for message in stored] == ["A", "B", "C"]


async def until_head(bench: NatsBench, seq: int) -> None:
    """Wait until the log's head stands at least there."""
    reader = await bench.log.reader(after_seq=0)
    async with asyncio.timeout(10):
        while (await reader.read(limit=100, timeout_s=1)).last_seq < seq:
            pass
    await reader.close()


async def test_an_archive_of_a_trimmed_log_keeps_its_sequences(bench: NatsBench, tmp_path: Path) -> None:
    pen = await leader(bench.log)
    await pen.append([queued(n) for n in range(10)], folded_seq=2)
    await bench.purge(6)
    before = [fact.seq for fact in await fold(bench.log)]

    await export_log(bench.connection, bench.name, tmp_path / "log.gz")
    await renew(bench)
    await import_log(bench.connection, bench.name, tmp_path / "log.gz")

    assert [fact.seq for fact in await fold(bench.log)] == before == list(range(7, 14))


async def test_an_archive_does_not_go_into_a_stream_that_holds_something(bench: NatsBench, tmp_path: Path) -> None:
    await leader(bench.log)
    await export_log(bench.connection, bench.name, tmp_path / "log.gz")

    with pytest.raises(ArchiveError, match="empty stream"):
        await import_log(bench.connection, bench.name, tmp_path / "log.gz")


async def test_a_cut_off_archive_stores_nothing(bench: NatsBench, tmp_path: Path) -> None:
    await leader(bench.log)
    await export_log(bench.connection, bench.name, tmp_path / "log.gz")
    lines = gzip.decompress((tmp_path / "log.gz").read_bytes()).splitlines(keepends=True)
    (tmp_path / "log.gz").write_bytes(gzip.compress(b"".join(lines[:-1])))
    await renew(bench)

    with pytest.raises(ArchiveError, match="cut off"):
        await import_log(bench.connection, bench.name, tmp_path / "log.gz")

    assert await fold(bench.log) == []


async def test_an_archive_of_another_stream_is_refused(bench: NatsBench, tmp_path: Path) -> None:
    await export_log(bench.connection, FED_LOG, tmp_path / "fed.gz")

    with pytest.raises(ArchiveError, match="holds 'FED', not LOG_atlas"):
        await import_log(bench.connection, bench.name, tmp_path / "fed.gz")


async def test_an_export_that_fails_leaves_no_half_file(bench: NatsBench, tmp_path: Path) -> None:
    await leader(bench.log)

    with pytest.raises(ArchiveError):
        await export_log(bench.connection, bench.name, tmp_path / "no-such-folder" / "log.gz")
    with pytest.raises(RuntimeError):
        await export_log(bench.connection, bench.name, tmp_path / "log.gz", progress=interrupt)

    assert os.listdir(tmp_path) == []  # noqa: PTH208 - pathlib's way is refused in coroutines


def interrupt(done: int, of: int) -> None:
    raise RuntimeError(f"interrupted at {done} of {of}")


async def test_trim_archives_then_forgets(bench: NatsBench, tmp_path: Path) -> None:
    pen = await leader(bench.log)
    first = await pen.append([queued(n) for n in range(10)], folded_seq=2)
    second = await pen.append([queued(10)], folded_seq=first.last_seq)
    now = after(await stored_time(bench, first.last_seq), 100)

    archived = await trim(
        bench.connection, bench.name, up_to_seq=first.last_seq, keep_s=60, now=now, archive=tmp_path / "old.gz"
    )

    assert (archived.first_seq, archived.last_seq) == (1, first.last_seq)
    assert [fact.seq for fact in await fold(bench.log)] == [second.first_seq, second.last_seq]
    await pen.append([queued(11)], folded_seq=second.last_seq)


async def test_trim_refuses_what_is_young(bench: NatsBench, tmp_path: Path) -> None:
    await leader(bench.log)
    now = after(await stored_time(bench, 2), 50)

    with pytest.raises(TrimRefusedError, match="kept for 60 s"):
        await trim(bench.connection, bench.name, up_to_seq=2, keep_s=60, now=now, archive=tmp_path / "old.gz")

    assert len(await fold(bench.log)) == 2


async def test_trim_refuses_a_live_fence_and_forgets_a_dead_one(bench: NatsBench, tmp_path: Path) -> None:
    await leader(bench.log, service="agent")
    scheduler = await leader(bench.log)
    await scheduler.append([queued(1)], folded_seq=4)
    written = await stored_time(bench, 2)
    settled = {"up_to_seq": 4, "keep_s": 60.0, "archive": tmp_path / "old.gz"}

    with pytest.raises(TrimRefusedError, match=f"live fence muster.{CLUSTER}.agent.fence"):
        await trim(bench.connection, bench.name, now=after(written, 100), **settled)
    await trim(bench.connection, bench.name, now=after(written, FENCE_LIVE_S + 1), **settled)

    assert numbers(await fold(bench.log)) == [1]
    await leader(bench.log, term=2, service="agent")
