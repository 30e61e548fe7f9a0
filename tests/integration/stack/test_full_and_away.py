"""A full store or a missing broker refuses new jobs and loses none that were acknowledged; Redis may be missing."""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from kit.stack.living import Harness, job, open_harness, options
from muster.schemas.job import Phase

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module")]

JOBS_MAX = 2000  # far more than the small store takes


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    """A stack of which something is away for a moment, and comes back."""
    async with open_harness(options(Path(tmp_path_factory.mktemp("harness")))) as running:
        yield running


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """The process answers nobody meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_a_full_federation_refuses_with_503_and_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    async with open_harness(options(tmp_path, fed_bytes_max=256 * 1024)) as harness:
        accepted: list[str] = []
        for index in range(JOBS_MAX):
            answer = await harness.post(job(f"job-{index}", run_s=0.1), key=str(index))
            if answer.status_code != 201:
                break
            accepted.append(answer.json()["id"])
        assert answer.status_code == 503
        assert accepted
        stored = {fact.subject_id for fact in await harness.federation_facts() if fact.name == "submitted"}
        assert stored == set(accepted)


async def test_submit_and_cancel_work_while_redis_is_away(harness: Harness) -> None:
    with stopped(harness.pid("redis-server")):
        submitted = await harness.muster.submit(job("without-redis", run_s=10_000))
        assert (await harness.muster.get(submitted.id)).id == submitted.id
        await harness.muster.cancel(submitted.id)
    assert [view.phase for view in await harness.ended([submitted.id])] == [Phase.CANCELLED]


async def test_a_stopped_broker_refuses_with_503_and_the_same_key_succeeds_later(harness: Harness) -> None:
    with stopped(harness.pid("nats-server")):
        assert (await harness.post(job("away"), key="once")).status_code == 503
    submitted = await harness.muster.submit(job("away"), idempotency_key="once")
    assert [view.phase for view in await harness.ended([submitted.id])] == [Phase.SUCCEEDED]
    assert await harness.violations([submitted.id]) == []
