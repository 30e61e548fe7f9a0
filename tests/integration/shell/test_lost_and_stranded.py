"""What the network swallows and what a kill leaves behind, on the level of whole services."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from kit.stack.hosted import LOG, HostedServices, until_leading
from kit.toys import agent, bystanders, scheduler
from kit.waiting import until
from muster.bus import nats_log
from muster.bus.checkpoint import Checkpoints
from muster.bus.checkpoint_store import NatsCheckpoints
from muster.bus.nats_log import NatsLog

pytestmark = pytest.mark.connected


class Swallowing:
    """A network that swallows every message after a sequence once."""

    def __init__(self) -> None:
        self.after_seq: int | None = None
        self.swallowed: set[int] = set()

    def __call__(self, seq: int) -> bool:
        if self.after_seq is None or seq <= self.after_seq or seq in self.swallowed:
            return False
        self.swallowed.add(seq)
        return True


async def test_a_decision_comes_although_the_last_batch_of_a_quiet_log_was_swallowed(
    harness: HostedServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    network: Callable[[int], bool] = Swallowing()
    monkeypatch.setattr(nats_log, "NatsLog", partial(NatsLog, drop=network))
    hosting = await harness.host(scheduler())
    shell = await until_leading(hosting.shells)
    assert isinstance(network, Swallowing)
    network.after_seq = len(await harness.facts())
    joined = await harness.join("n1", "n2")
    await until(lambda: shell.core.released == {"n1", "n2"})  # type: ignore[attr-defined]
    assert {joined - 1, joined} <= network.swallowed
    assert [fact.subject_id for fact in await harness.facts("released")] == ["n1", "n2"]
    assert shell.log.counters.gaps >= 1  # type: ignore[attr-defined]


async def test_a_leader_whose_fence_was_purged_begins_a_new_term_and_goes_on(harness: HostedServices) -> None:
    """As after a trim of a log that was too full for too long to take a renewal."""
    hosting = await harness.host(scheduler())
    shell = await until_leading(hosting.shells)
    tools = await harness.client("admin-tools")
    await tools.jetstream().purge_stream(LOG.stream)
    await harness.join("n1")
    await until(lambda: shell.core.released == {"n1"})  # type: ignore[attr-defined]
    assert [fact.name for fact in await harness.facts() if fact.name == "term-started"] == ["term-started"]


async def test_a_leader_killed_before_its_upload_leaves_nothing_behind_for_long(
    harness: HostedServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = NatsCheckpoints(await harness.client("scheduler"))
    known = Checkpoints(store, LOG)
    staying, leaving = await harness.host(agent("n1"), *bystanders()), await harness.host(scheduler())
    await until_leading(staying.shells)
    await until_leading(leaving.shells)
    upload, hangs = Checkpoints.upload, asyncio.Event()

    async def killed_in_the_middle(self: Checkpoints, service: str, **part: object) -> None:
        if service == "scheduler":
            hangs.set()
            await asyncio.Future()
        await upload(self, service, **part)  # type: ignore[arg-type]

    monkeypatch.setattr(Checkpoints, "upload", killed_in_the_middle)
    stranded = await harness.request_checkpoint()
    await hangs.wait()
    await until_async(lambda: store.has_part(LOG.stream, stranded, "agent"))
    for task in leaving.process._tasks:
        task.cancel()
    await leaving.end()
    monkeypatch.undo()
    assert await known.newest() is None

    await until_leading((await harness.host(scheduler())).shells)
    for _ in range(2):
        seq = await harness.request_checkpoint()
        await until_async(lambda seq=seq: is_newest(known, seq))  # type: ignore[misc]
    assert not await store.has_part(LOG.stream, stranded, "agent")


async def is_newest(known: Checkpoints, seq: int) -> bool:
    recorded = await known.newest()
    return recorded is not None and recorded.seq == seq


async def until_async(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not await is_so():  # type: ignore[misc]  # noqa: ASYNC110 - other processes cannot set an event of ours
            await asyncio.sleep(0.01)
