"""kill -9 of any process during a surge: no accepted job is lost, no device is held twice."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kit.stack.living import Harness, job, open_harness, options
from muster.client import MusterError

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module")]

JOBS = 120
KILL_AFTER = 40


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    async with open_harness(options(Path(tmp_path_factory.mktemp("harness")), nodes=24, split=True)) as running:
        yield running


@pytest.mark.parametrize(
    "victim", ["scheduler", "agent", "federation", "projector", "gateway", "redis-server", "nats-server"]
)
async def test_killing_a_process_in_a_surge_loses_no_job_and_doubles_no_device(harness: Harness, victim: str) -> None:
    accepted: list[str] = []
    enough = asyncio.Event()

    async def submit(index: int) -> None:
        spec = job(f"{victim}-{index}", gpus=(1, 1, 1, 2, 2, 4, 4, 8)[index % 8], run_s=1.0)
        while True:  # as a user would: the same key again until it is acknowledged; the test's time-out is the bound
            try:
                accepted.append((await harness.muster.submit(spec, idempotency_key=f"{victim}-{index}")).id)
                break
            except MusterError:
                await asyncio.sleep(0.1)
        if len(accepted) >= KILL_AFTER:
            enough.set()

    async def surge() -> None:
        async with asyncio.TaskGroup() as group:
            for index in range(JOBS):
                group.create_task(submit(index))
                await asyncio.sleep(0.005)

    surging = asyncio.create_task(surge())
    await enough.wait()
    await harness.kill(victim)
    await surging
    assert len(set(accepted)) == JOBS
    await harness.ended(accepted)
    assert await harness.violations(accepted) == []
