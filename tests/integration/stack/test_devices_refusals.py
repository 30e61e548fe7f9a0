"""What cannot be asked of devices is refused with its field; a fabric that talks nonsense stops nothing else."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kit.stack.devices import MODEL, DevicesHarness, open_devices_harness, settings_with
from kit.stack.living import command
from kit.waiting import until_async
from muster.client import Muster, NotAllowedError, NotFoundError, RefusedError
from muster.schemas.access import Role, TokenRecord
from muster.schemas.devices import AttachmentPhase, BreakerState, ComposabilitySpec, DeviceView
from muster.schemas.facts.device import CallStarted
from muster.schemas.job import Phase
from muster_tools.demo.settings import FABRIC, POOL

pytestmark = [pytest.mark.connected, pytest.mark.timeout(240), pytest.mark.asyncio(loop_scope="module")]

SECOND = "second"
WORKER = "flex-0001"
SURVEY_AGE_S_MAX = 30.0
"""Looks are taken every second."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def there(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DevicesHarness]:
    """Nothing scales by itself; a second fabric has a group of its own."""
    settings = settings_with(scaling={"mode": "off"})
    scaling, fabrics = settings["scaling"], settings["fabrics"]
    assert isinstance(scaling, dict)
    assert isinstance(fabrics, list)
    scaling["groups"] = [*scaling["groups"], {**scaling["groups"][0], "name": "edge", "fabric": SECOND, "nodes": 1}]
    settings["fabrics"] = [*fabrics, {**fabrics[0], "name": SECOND}]
    state_dir = Path(tmp_path_factory.mktemp("harness")) / "state"
    async with open_devices_harness(state_dir, settings) as running:
        await until_async(lambda: _all_known(running))
        yield running


async def _all_known(there: DevicesHarness) -> bool:
    pools = [fabric.pool for fabric in await there.harness.muster.fabrics()]
    nodes = [node for node in await there.harness.muster.nodes() if node.usable]
    return len(pools) == 2 and all(pools) and len(nodes) == 3


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"model": "B200", "size": 1}, "spec.model"),
        ({"model": MODEL, "size": 2 * POOL + 1}, "spec.size"),
        ({"model": MODEL, "size": 4, "target_node": WORKER}, "spec.size"),
        ({"model": MODEL, "size": 1, "target_node": "flex-0099"}, "spec.target_node"),
        ({"model": MODEL, "size": 1, "type": "fpga"}, "spec.type"),
    ],
    ids=["unknown model", "over the pool", "over the node's most", "node is gone", "unknown type"],
)
async def test_what_cannot_be_attached_is_refused_with_its_field(
    there: DevicesHarness, wanted: dict[str, object], field: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        await there.harness.muster.compose(ComposabilitySpec.model_validate(wanted))
    assert refused.value.problem.field == field, refused.value.problem
    assert refused.value.problem.detail


async def test_the_command_line_says_the_same(there: DevicesHarness) -> None:
    with pytest.raises(AssertionError, match=r": 3\n.*target_node: .*flex-0099"):
        await command(
            there.harness.settings.state_dir,
            "device",
            "attach",
            "--model",
            MODEL,
            "--count",
            "1",
            "--node",
            "flex-0099",
        )


async def test_a_name_of_the_scalers_own_requests_is_refused(there: DevicesHarness) -> None:
    with pytest.raises(RefusedError) as refused:
        await there.harness.muster.compose(ComposabilitySpec(model=MODEL, size=1), name="s000001")
    assert refused.value.problem.field == "name"


async def _held(there: DevicesHarness, name: str) -> tuple[str, DeviceView]:
    """A job that runs on one GPU, and that GPU."""
    job_id = await there.stage.submit(name, gpus=1)
    await there.stage.running(job_id)
    devices: list[DeviceView] = []

    async def shown() -> bool:
        devices[:] = [one for one in await there.harness.muster.devices() if one.holders == (job_id,)]
        return bool(devices)

    await until_async(shown)
    return job_id, devices[0]


async def test_a_held_device_goes_when_its_holder_has_ended(there: DevicesHarness) -> None:
    job_id, device = await _held(there, "holder")
    asked = await there.harness.muster.detach(device.device_uuid)
    assert (asked.phase, asked.holders) == (AttachmentPhase.WITHHOLDING, (job_id,))
    assert not await _detaching(there, device)
    await there.stage.end(job_id)
    await until_async(lambda: _detaching(there, device))
    (detaching,) = await _detaching(there, device)
    assert (detaching.forced, detaching.holders) == (False, ())


async def test_force_needs_the_role_and_says_whom_it_stopped(there: DevicesHarness) -> None:
    muster = there.harness.muster
    job_id, device = await _held(there, "stopped")
    made = await muster.make_token(TokenRecord(principal="ada", role=Role.SUBMITTER, teams=("demo",)))
    async with Muster(there.harness.stack.endpoints.http, made.token) as ada:
        with pytest.raises(NotAllowedError):
            await ada.detach(device.device_uuid, force=True)
        with pytest.raises(NotAllowedError):
            await ada.compose(ComposabilitySpec(model=MODEL, size=1, target_node=WORKER, force_detach=True))
    await muster.detach(device.device_uuid)  # it waits, until somebody wants it with more force
    await muster.detach(device.device_uuid, force=True)
    await until_async(lambda: _detaching(there, device))
    (detaching,) = await _detaching(there, device)
    assert (detaching.forced, detaching.holders) == (True, (job_id,))
    again = await there.harness.job_that(job_id, lambda job: job.attempt == 2 and bool(job.running_at))
    assert again.phase is Phase.RUNNING, "it went on elsewhere, and did not fail"
    await there.stage.end(job_id)


async def _detaching(there: DevicesHarness, device: DeviceView) -> list[CallStarted]:
    facts = [fact.payload for fact in await there.facts("detaching") if fact.subject_id == device.id]
    return [payload for payload in facts if isinstance(payload, CallStarted)]


async def test_a_device_that_nobody_knows_is_not_found(there: DevicesHarness) -> None:
    with pytest.raises(NotFoundError):
        await there.harness.muster.detach("GPU-nobody-knows")


async def test_a_fabric_that_talks_nonsense_is_shown_with_its_breaker_open_and_nothing_else_stops(
    there: DevicesHarness,
) -> None:
    muster = there.harness.muster
    await there.behave(outage="nonsense")

    async def is_open() -> bool:
        shown = {fabric.name: fabric for fabric in await muster.fabrics()}
        return shown[FABRIC].breaker is not BreakerState.CLOSED and bool(shown[FABRIC].error)

    await until_async(is_open)
    assert await there.harness.metric("muster_fabric_breaker", fabric=FABRIC) > 0
    assert await there.harness.metric("muster_fabric_breaker", fabric=SECOND) == 0
    other = await muster.compose(ComposabilitySpec(model=MODEL, size=1, target_node="edge-0001"), name="meanwhile")
    assert other is not None
    await until_async(lambda: _is_online(there, "meanwhile"))
    job_id = await there.stage.submit("meanwhile", cpu_milli=1000)
    await there.stage.running(job_id)
    await there.stage.end(job_id)
    await there.behave(outage="none")

    async def is_closed() -> bool:
        return all(fabric.breaker is BreakerState.CLOSED for fabric in await muster.fabrics())

    await until_async(is_closed)
    await muster.compose(ComposabilitySpec(model=MODEL, size=1, target_node=WORKER), name="afterwards")
    await until_async(lambda: _is_online(there, "afterwards"))
    assert await there.harness.metric("muster_fabric_breaker", fabric=FABRIC) == 0
    assert await there.harness.metric("muster_attachments", fabric=FABRIC, phase="online") > 0
    assert 0 < await there.harness.metric("muster_fabric_survey_age_seconds", fabric=FABRIC) < SURVEY_AGE_S_MAX
    said = (there.harness.settings.state_dir / "logs" / "all.log").read_text()
    assert f"fabric {FABRIC} gets no calls until" in said
    assert f"fabric {FABRIC} answers again" in said
    assert f"fabric {SECOND} gets no calls" not in said


async def _is_online(there: DevicesHarness, name: str) -> bool:
    request = await there.harness.muster.composability_request(name)
    return bool(request.resources) and all(device.phase == "online" for device in request.resources)
