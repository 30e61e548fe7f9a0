"""Processes killed or stopped during a surge, one or several: no accepted job is lost, no device is held twice."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from kit.stack.living import Harness, job, open_harness, options
from kit.waiting import until
from muster.client import MusterError

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module")]

Strike = Callable[[Harness], Awaitable[None]]

JOBS = 120
STRIKE_AFTER = 30
PAUSE_S = 0.01
"""Between two jobs: the surge goes on long after the strike."""
STOPPED_S = 5.0
SERVICES = ("scheduler", "agent", "federation", "projector", "gateway")
VICTIMS = (*SERVICES, "redis-server", "nats-server")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    async with open_harness(options(Path(tmp_path_factory.mktemp("harness")), nodes=24, split=True)) as running:
        yield running


async def kill(names: Sequence[str], harness: Harness) -> None:
    """SIGKILL to all of them before the first is started anew."""
    victims = {name: harness.pid(name) for name in names}
    for pid in victims.values():
        os.kill(pid, signal.SIGKILL)
    for name, pid in victims.items():
        await until(lambda name=name, pid=pid: _replaced(harness, name, pid))  # type: ignore[misc]


async def stop_the_broker(harness: Harness) -> None:
    """It hangs, connections stay open, nobody is answered; then it goes on where it was."""
    pid = harness.pid("nats-server")
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(STOPPED_S)  # the disturbance itself: longer than the leases and the commit's time-out
    finally:
        os.kill(pid, signal.SIGCONT)


async def kill_the_broker_three_times(harness: Harness) -> None:
    """Each time as soon as it is back."""
    for _ in range(3):
        await harness.kill("nats-server")


def _replaced(harness: Harness, name: str, old: int) -> bool:
    return any(child.name == name and child.pid not in (None, old) for child in harness.stack.children())


STRIKES: dict[str, Strike] = {
    **{f"kill-{name}": partial(kill, (name,)) for name in VICTIMS},
    "kill-scheduler-and-broker": partial(kill, ("scheduler", "nats-server")),
    "kill-every-service": partial(kill, SERVICES),
    "kill-broker-three-times": kill_the_broker_three_times,
    "stop-broker": stop_the_broker,
}


@pytest.mark.parametrize("name", STRIKES)
async def test_a_strike_in_a_surge_loses_no_job_and_doubles_no_device(harness: Harness, name: str) -> None:
    accepted: list[str] = []
    enough = asyncio.Event()

    async def submit(index: int) -> None:
        spec = job(f"{name}-{index}", gpus=(1, 1, 1, 2, 2, 4, 4, 8)[index % 8], run_s=1.0)
        while True:  # as a user would: the same key again until it is acknowledged; the test's time-out is the bound
            try:
                accepted.append((await harness.muster.submit(spec, idempotency_key=f"{name}-{index}")).id)
                break
            except MusterError:
                await asyncio.sleep(0.1)
        if len(accepted) >= STRIKE_AFTER:
            enough.set()

    async def surge() -> None:
        async with asyncio.TaskGroup() as group:
            for index in range(JOBS):
                group.create_task(submit(index))
                await asyncio.sleep(PAUSE_S)

    surging = asyncio.create_task(surge())
    await enough.wait()
    await STRIKES[name](harness)
    await surging
    assert len(set(accepted)) == JOBS
    await harness.ended(accepted)
    assert await harness.violations(accepted) == []
