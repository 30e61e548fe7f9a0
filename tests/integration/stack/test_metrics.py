"""What the metrics of a stack tell of its logs and services."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kit.stack.living import Harness, job, open_harness, options
from kit.waiting import until_async
from muster.schemas.subjects import cluster_log

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module")]

LOG = "LOG_local"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    async with open_harness(options(Path(tmp_path_factory.mktemp("harness")))) as running:
        ended = [(await running.muster.submit(job(f"job-{index}"))).id for index in range(10)]
        await running.ended(ended)
        yield running


@pytest.mark.parametrize("service", ["scheduler", "agent"])
async def test_a_leader_tells_what_it_folds_decides_and_appends(harness: Harness, service: str) -> None:
    here = {"service": service, "log": LOG}
    for name in ("folded_facts_total", "appended_facts_total", "fold_seconds_count", "decide_seconds_count"):
        assert await harness.metric(f"muster_{name}", **here) > 0, name
    assert await harness.metric("muster_append_seconds_count", **here) > 0
    assert await harness.metric("muster_leading", **here) == 1
    assert await harness.metric("muster_folded_seq", **here) >= 10
    assert await harness.metric("muster_log_lag_messages", **here) == 0
    assert abs(await harness.metric("muster_clock_skew_seconds", **here)) < 2
    assert await harness.metric("muster_append_refused_total", **here) == 0


async def test_how_full_a_log_is_shows(harness: Harness) -> None:
    async def looked() -> bool:
        return await harness.metric("muster_log_stored_bytes", log=LOG) > 0

    await until_async(looked)
    assert await harness.metric("muster_log_stored_bytes_max", log=LOG) == harness.settings.bus.log_bytes_max
    assert await harness.metric("muster_log_source_waiting_messages", log=LOG, source="FED") == 0


async def test_a_message_that_is_no_fact_is_counted_and_the_log_goes_on(harness: Harness) -> None:
    before = await harness.metric("muster_log_dead_total", log=LOG)
    subject = f"muster.{cluster_log(harness.settings.cluster).scope}.agent.node.n1.joined"
    async with harness.connection("agent") as client:
        await client.jetstream().publish(subject, b"{no fact", timeout=5)

    async def counted() -> bool:
        return await harness.metric("muster_log_dead_total", log=LOG) > before

    await until_async(counted)
    async with harness.connection() as client:
        assert (await client.jetstream().stream_info("DEAD")).state.messages == 1
    after = (await harness.muster.submit(job("after"))).id
    await harness.ended([after])
    assert await harness.metric("muster_log_stale_total", log=LOG) == 0
