"""Readings on a whole stack: from simulated exporters over the bus to the command line, through a lost leader."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from kit.stack.living import TEAM, Harness, open_harness, options
from kit.waiting import until_async
from muster.client.errors import UnreachableError
from muster.schemas import labels
from muster.schemas.job import JobSpec, Phase, TaskGroup
from muster.schemas.usage import Idle, JobUse, Top

pytestmark = [pytest.mark.connected, pytest.mark.timeout(240), pytest.mark.asyncio(loop_scope="module")]

INTERVAL_S = 0.5


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    """Two nodes that are read twice a second; what jobs use is reported every second."""
    plain = options(Path(tmp_path_factory.mktemp("harness")), nodes=2)
    simulation = {**dict(plain.settings["simulation"]), "telemetry_interval_s": INTERVAL_S}  # type: ignore[call-overload]
    telemetry = {"interval_s": INTERVAL_S, "timeout_s": 0.5, "report_s": 1.0, "idle_after_s": 1.0}
    settings = {**plain.settings, "simulation": simulation, "telemetry": telemetry}
    async with open_harness(plain.model_copy(update={"settings": settings})) as running:
        yield running


def gang(name: str, **told: str) -> JobSpec:
    group = TaskGroup(name="w", replicas=1, gpus=4)
    return JobSpec(name=name, team=TEAM, task_groups=(group,), labels={labels.RUN_S: "600", **told})


async def inject(harness: Harness, **fault: object) -> None:
    async with httpx.AsyncClient() as client:
        url = f"http://127.0.0.1:{harness.stack.endpoints.ports['dcgm']}/_faults"
        (await client.post(url, json=fault)).raise_for_status()


async def test_what_a_job_uses_is_seen_survives_a_lost_leader_and_ends_as_a_fact(harness: Harness) -> None:
    muster = harness.muster
    busy = await muster.submit(gang("train"))
    lazy = await muster.submit(gang("notebook", **{labels.GPU_BUSY: "0"}))

    async def at_work() -> bool:
        """All of it in one answer: a reading that is late leaves its GPUs out of the next."""
        top: Top = await muster.top()
        rows = {row.key: row for row in top.rows}
        if rows.keys() != {busy.id, lazy.id} or top.gpus_seen != 16:
            return False
        works, rests = rows[busy.id], rows[lazy.id]
        is_shown = works.busy_pct > 75 > (works.sm_active_pct or 0) > 40 and rests.busy_pct == 0
        return is_shown and works.gpus == rests.gpus == 4

    await until_async(at_work)

    async def idle() -> bool:
        found: Idle = await muster.idle()
        return {one.job_id for one in found.gpus} == {lazy.id} and found.total == 4

    await until_async(idle)

    async def reported() -> bool:
        return any(fact.name == "use-reported" and fact.subject_id == busy.id for fact in await harness.facts())

    await until_async(reported)
    before: JobUse = await muster.stats(busy.id)
    assert (before.is_known, before.gpus, before.team, before.name) == (True, 4, TEAM, "train")
    await harness.kill("all")

    async def goes_on() -> bool:
        try:
            now = await muster.stats(busy.id)
        except UnreachableError:  # it is being started again
            return False
        return now.is_known and now.use.measured_s > before.use.measured_s

    await until_async(goes_on)
    await muster.cancel(busy.id)
    await harness.job_that(busy.id, lambda job: job.phase is Phase.CANCELLED)

    async def over() -> bool:
        return (await muster.stats(busy.id)).is_over

    await until_async(over)
    last = await muster.stats(busy.id)
    assert last.use.measured_s >= before.use.measured_s
    assert last.energy_kwh > 0
    assert last.team == TEAM


async def test_exporters_that_fail_are_told_and_gpus_that_are_gone_are_missed(harness: Harness) -> None:

    async def well() -> bool:
        return (await harness.muster.top()).gpus_seen == 16

    await until_async(well)
    await inject(harness, node="gpu-0001", gpu=3, fault="off-bus")

    async def missed() -> bool:
        return await harness.metric("muster_telemetry_gpus_missing", model="H100") == 1

    await until_async(missed)
    await inject(harness, node="gpu-0001", fault="hung")
    await inject(harness, node="gpu-0002", fault="down")

    async def told() -> bool:
        found = await harness.muster.top()
        return {one.state: one.nodes for one in found.exporters} == {"hung": ("gpu-0001",), "down": ("gpu-0002",)}

    await until_async(told)
