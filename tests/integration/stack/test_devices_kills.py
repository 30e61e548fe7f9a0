"""kill -9 in mid-attach, and a restart of everything: nothing is lost, nothing is doubled."""

from pathlib import Path

import pytest

from kit.stack.devices import DevicesHarness, open_devices_harness, settings_with, switching
from kit.stack.living import PASSED
from kit.waiting import until_async
from muster.schemas.facts.device import DeviceAttached
from muster_tools.demo.stories import Cast, prepare

pytestmark = [pytest.mark.connected, pytest.mark.timeout(240)]

SWITCH_S = 2.0
"""Long enough to be hit in the middle."""


@pytest.mark.parametrize("victim", ["composer", "fabric-simulator", "scaler"])
async def test_a_process_killed_in_mid_attach_loses_and_doubles_nothing(tmp_path: Path, victim: str) -> None:
    settings = settings_with() | {"fabrics": [switching(SWITCH_S)]}
    services = (*PASSED, "scaler", "composer")
    async with open_devices_harness(tmp_path / "state", settings, split=True, services=services) as there:
        cast = Cast()
        await prepare(there.stage, cast)
        before = await there.free()
        job_id = await there.stage.submit("one-more-gpu", gpus=1)
        attaching = await there.said("attaching", job_id=job_id)
        await there.harness.kill(victim)
        await there.stage.running(job_id)
        await until_async(lambda: _stands(there))
        assert await there.free() == before - 1, "exactly one device was attached for a job of one"
        attached = [fact for fact in await there.facts("attached") if fact.subject_id == attaching.subject_id]
        assert [type(fact.payload) for fact in attached] == [DeviceAttached]
        assert await there.harness.violations([job_id, *cast.guards, *cast.tenants], all_ended=False) == []


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


async def _stands(there: DevicesHarness) -> bool:
    return not await there.books()
