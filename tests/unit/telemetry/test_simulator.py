"""Simulated exporters: pages that the service itself reads, and faults on request."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, web

from kit.clocks import FakeTime
from kit.telemetry import BEGAN, VirtualTelemetry, slot, uuid
from muster.core import Instant, after
from muster.schemas import labels
from muster.schemas.facts.operations import ActionOutcome, NodeAction, NodeActionEnded, NodeActionRequested
from muster.schemas.job import JobSpec, TaskGroup
from muster.schemas.telemetry import DeviceSample
from muster.stack.ports import free_port
from muster.telemetry.core.pages import Page, read_page
from muster.telemetry.core.samples import node_sample
from muster.telemetry.simulator.gpus import FaultKind
from muster.telemetry.simulator.process import Pages
from muster.telemetry.simulator.world import UnknownDeviceError, World


class SimulatedHarness(VirtualTelemetry):
    """The same facts, folded into a simulated world."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(seed=1, collect_s=10.0)
        self.watch = self.world.apply

    def page(self, node: str = "n1", at_s: float = 100.0) -> Page:
        return read_page(self.world.page(node, after(BEGAN, at_s)))

    def devices(self, node: str = "n1", at_s: float = 100.0) -> dict[int, DeviceSample]:
        sample = node_sample(
            node,
            self.page(node, at_s),
            at=Instant(1),
            description=self.world.holdings.nodes[node].description,
            holders={},
            job_of_pod=lambda _: None,
            is_live=self.world.holdings.jobs.__contains__,
        )
        return {device.index: device for device in sample.devices}


def harness_with_job(**told: str) -> tuple[SimulatedHarness, str]:
    harness = SimulatedHarness()
    harness.join("n1", "n2")
    job = harness.place(0, slot("n1", 0, 1))
    if told:
        spec = JobSpec(name="j", team="lab", task_groups=(TaskGroup(name="w", gpus=1),), labels=told)
        harness.world.holdings.jobs[job].job = harness.world.holdings.jobs[job].job.model_copy(update={"spec": spec})
    return harness, job


def test_what_jobs_hold_is_busy_and_names_them_and_the_rest_is_cool() -> None:
    harness, job = harness_with_job()
    devices = harness.devices()
    assert [device.job_ids for device in devices.values()] == [(job,), (job,), *[()] * 6]
    busy, idle = devices[0], devices[5]
    assert 80 <= busy.utilisation_pct <= 100
    assert 0 < busy.tensor_active_pct < busy.sm_active_pct < 90
    assert 0 < busy.memory_used_mib < busy.memory_total_mib
    assert (idle.utilisation_pct, idle.memory_used_mib, idle.lacking) == (0.0, 0, ())
    assert idle.power_w < 100 < busy.power_w
    assert len(busy.watches) == 11


def test_pages_are_drawn_by_seed_and_reading_and_counters_go_on() -> None:
    harness, _ = harness_with_job()
    first, again, later = (harness.world.page("n1", after(BEGAN, at_s)) for at_s in (100.0, 109.0, 110.0))
    assert first == again != later
    before, after_ = harness.devices(at_s=120.0)[0], harness.devices(at_s=130.0)[0]
    assert after_.energy_mj - before.energy_mj == pytest.approx(before.power_w * 10_000, rel=1e-6)


def test_labels_of_a_job_say_what_its_gpus_do() -> None:
    harness, _ = harness_with_job(**{labels.GPU_BUSY: "1", labels.GPU_SM: "0.1"})
    device = harness.devices()[0]
    assert (device.utilisation_pct, device.sm_active_pct) == (100.0, 10.0)
    harness, _ = harness_with_job(**{labels.GPU_BUSY: "0"})
    assert harness.devices()[0].sm_active_pct == 0.0


def test_faults_of_a_gpu_show_on_the_page_and_add_up() -> None:
    harness, _ = harness_with_job()
    at = after(BEGAN, 95.0)
    for kind, value in ((FaultKind.XID, 13), (FaultKind.XID, 79), (FaultKind.ECC_DBE, 2), (FaultKind.ECC_DBE, 1)):
        harness.world.inject("n1", 3, kind, value, at)
    for kind in (FaultKind.REMAP_PENDING, FaultKind.THROTTLED):
        harness.world.inject("n1", 3, kind, 1.0, at)
    harness.world.inject("n1", 3, FaultKind.HOT, 97.0, at)
    harness.world.inject("n1", 3, FaultKind.WATCH, 20.0, at)
    harness.world.inject("n1", 3, FaultKind.RECOVERY, 2.0, at)
    sick = harness.devices()[3]
    assert (sick.xid, sick.xid_counts) == (79, ((13, 1), (79, 1)))
    assert (sick.ecc_dbe, sick.remap_pending, sick.temperature_c) == (3, True, 97.0)
    assert (sick.throttled, sick.recovery_action) == (("hw_thermal",), "reboot")
    assert {watch.watch for watch in sick.watches if watch.level} == {"MEM", "ALL"}
    late = harness.devices(at_s=500.0)[3]
    assert (late.xid, late.xid_counts) == (79, ()), "the gauge stays, the window passes"


def test_a_gpu_off_the_bus_is_on_no_line() -> None:
    harness, _ = harness_with_job()
    harness.world.inject("n1", 3, FaultKind.OFF_BUS, 1.0, BEGAN)
    assert uuid("n1", 3) not in harness.world.page("n1", BEGAN)
    harness.world.clear("n1", 3)
    assert uuid("n1", 3) in harness.world.page("n1", BEGAN)


def test_a_stale_exporter_goes_on_saying_what_it_said() -> None:
    harness, _ = harness_with_job()
    harness.world.inject("n1", None, FaultKind.STALE, 1.0, after(BEGAN, 100.0))
    assert harness.world.page("n1", after(BEGAN, 100.0)) == harness.world.page("n1", after(BEGAN, 900.0))


@pytest.mark.parametrize(
    ("action", "device", "healed"),
    [
        (NodeAction.RESET, uuid("n1", 3), {FaultKind.XID}),
        (NodeAction.RESET, uuid("n1", 4), set()),
        (NodeAction.REBOOT, "", {FaultKind.XID, FaultKind.OFF_BUS, FaultKind.HUNG}),
        (NodeAction.REPLACE, "", {FaultKind.XID, FaultKind.OFF_BUS, FaultKind.HUNG, FaultKind.REMAP_FAILED}),
    ],
)
def test_what_is_done_to_a_node_heals_what_it_heals(action: NodeAction, device: str, healed: set[FaultKind]) -> None:
    harness, _ = harness_with_job()
    injected = {FaultKind.XID, FaultKind.OFF_BUS, FaultKind.REMAP_FAILED}
    for kind in injected:
        harness.world.inject("n1", 3, kind, 79.0, BEGAN)
    harness.world.inject("n1", None, FaultKind.HUNG, 1.0, BEGAN)
    asked = NodeActionRequested(request_id="r", action=action, device=device)
    harness.write("health", "node", "n1", "action-requested", asked)
    harness.write("agent", "node", "n1", "action-ended", NodeActionEnded(request_id="r", outcome=ActionOutcome.DONE))
    gpu = harness.world.nodes["n1"].gpus[uuid("n1", 3)].faults.values
    left = gpu.keys() | harness.world.faults_of("n1").values.keys()
    assert left == (injected | {FaultKind.HUNG}) - healed


def test_an_action_that_failed_heals_nothing() -> None:
    harness, _ = harness_with_job()
    harness.world.inject("n1", 3, FaultKind.XID, 79.0, BEGAN)
    asked = NodeActionRequested(request_id="r", action=NodeAction.REPLACE)
    harness.write("health", "node", "n1", "action-requested", asked)
    harness.write("agent", "node", "n1", "action-ended", NodeActionEnded(request_id="r", outcome=ActionOutcome.FAILED))
    assert harness.world.nodes["n1"].gpus[uuid("n1", 3)].faults.last_xid == 79


def test_faults_are_of_devices_that_there_are() -> None:
    harness, _ = harness_with_job()
    with pytest.raises(UnknownDeviceError, match="no node 'n9'"):
        harness.world.inject("n9", None, FaultKind.HUNG, 1.0, BEGAN)
    with pytest.raises(UnknownDeviceError, match="no GPU 9"):
        harness.world.inject("n1", 9, FaultKind.XID, 79.0, BEGAN)
    with pytest.raises(ValueError, match="is of one GPU"):
        harness.world.inject("n1", None, FaultKind.XID, 79.0, BEGAN)
    with pytest.raises(ValueError, match="is of the node"):
        harness.world.inject("n1", 1, FaultKind.HUNG, 1.0, BEGAN)


@asynccontextmanager
async def served(world: World) -> AsyncIterator[str]:
    runner = web.AppRunner(Pages(lambda: world, FakeTime(wall_ns=after(BEGAN, 100.0))).app(), shutdown_timeout=0.1)
    await runner.setup()
    port = free_port()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


async def test_faults_are_injected_told_and_taken_back_over_http() -> None:
    harness, _ = harness_with_job()
    async with served(harness.world) as url, ClientSession() as client:
        told = {"node": "n1", "gpu": 3, "fault": "xid", "value": 79}
        async with client.post(f"{url}/_faults", json=told) as answer:
            assert answer.status == 200
        async with client.get(f"{url}/_faults") as answer:
            assert (await answer.json())["faults"] == [{"node": "n1", "gpu": 3, "faults": {"xid": 79.0}}]
        async with client.get(f"{url}/nodes/n1/metrics") as answer:
            assert 'xid="79"' in await answer.text()
        async with client.delete(f"{url}/_faults", params={"node": "n1", "gpu": "3"}) as answer:
            assert answer.status == 200
        assert harness.world.nodes["n1"].gpus[uuid("n1", 3)].faults.values == {}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ('{"node": "n9", "fault": "hung"}', 404),
        ('{"node": "n1", "fault": "xid"}', 400),
        ('{"node": "n1", "gpu": 0, "fault": "broken"}', 400),
        ("nonsense", 400),
    ],
)
async def test_what_cannot_be_injected_is_refused(body: str, status: int) -> None:
    harness, _ = harness_with_job()
    async with (
        served(harness.world) as url,
        ClientSession() as client,
        client.post(f"{url}/_faults", data=body) as answer,
    ):
        assert answer.status == status
        assert (await answer.json())["error"]


async def test_a_node_that_there_is_not_has_no_page() -> None:
    harness, _ = harness_with_job()
    async with (
        served(harness.world) as url,
        ClientSession() as client,
        client.get(f"{url}/nodes/n9/metrics") as answer,
    ):
        assert answer.status == 404
