"""kill -9 in mid-attach, and a restart of everything: nothing is lost, nothing is doubled."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kit.stack.devices import DevicesHarness, open_devices_harness, settings_with, switching
from kit.stack.living import PASSED
from kit.waiting import until_async
from muster.schemas.facts.device import DeviceAttached
from muster_tools.demo.stories import Cast, prepare

pytestmark = [pytest.mark.connected, pytest.mark.timeout(240), pytest.mark.asyncio(loop_scope="module")]

SWITCH_S = 2.0
"""Long enough to be hit in the middle."""
CPU_MILLI = 300
"""Of a job: all that want one more GPU fit on one worker, so that no node is added for one."""
VICTIMS = ("composer", "fabric-simulator", "scaler")


async def test_a_stack_that_was_stopped_goes_on_with_the_same_devices(tmp_path: Path) -> None:
    state_dir = tmp_path / "state"
    async with open_devices_harness(state_dir) as there:
        await prepare(there.stage, Cast())
        job_id = await there.stage.submit("one-more-gpu", gpus=1)
        await there.stage.running(job_id)
        await until_async(lambda: _stands(there))
        before = await there.standing()
    async with open_devices_harness(state_dir) as again:
        assert await again.standing() == before
        await until_async(lambda: _stands(again))
        job = await again.stage.running(job_id)
        assert job.attempt == 1
        assert len(await again.facts("attached")) == sum(len(devices) for devices in before.values())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def there(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DevicesHarness]:
    """All GPUs are in use, and more lie in the pool than processes are killed."""
    settings = settings_with() | {"fabrics": [switching(SWITCH_S)]}
    services = (*PASSED, "scaler", "composer")
    state_dir = tmp_path_factory.mktemp("killed") / "state"
    async with open_devices_harness(state_dir, settings, split=True, services=services) as running:
        await prepare(running.stage, Cast())
        yield running


@pytest.mark.parametrize("victim", VICTIMS)
async def test_a_process_killed_in_mid_attach_loses_and_doubles_nothing(there: DevicesHarness, victim: str) -> None:
    before = await there.free()
    job_id = await there.stage.submit(f"one-more-gpu-{victim}", gpus=1, cpu_milli=CPU_MILLI)
    attaching = await there.said("attaching", job_id=job_id)
    await there.harness.kill(victim)
    await there.stage.running(job_id)
    await until_async(lambda: _stands(there))
    assert await there.free() == before - 1, "exactly one device was attached for a job of one"
    attached = [fact for fact in await there.facts("attached") if fact.subject_id == attaching.subject_id]
    assert [type(fact.payload) for fact in attached] == [DeviceAttached]
    jobs = [job.id for job in await there.harness.muster.list()]
    assert await there.harness.violations(jobs, all_ended=False) == []


async def _stands(there: DevicesHarness) -> bool:
    return not await there.books()
