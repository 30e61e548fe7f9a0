"""Sick hardware, through every service on real servers: the gang goes elsewhere, and the node comes back checked."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kit.stack.living import Harness, job, open_harness, options
from kit.waiting import until_async
from muster.core import Fact
from muster.core.instant import seconds_between
from muster.schemas.facts.job import JobQueued
from muster.schemas.facts.operations import NodeAction, NodeActionRequested
from muster.schemas.job import Phase
from muster.schemas.subjects import telemetry_subject
from muster.schemas.telemetry import DeviceSample, NodeSample

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module")]

WORK = {"simulated": {"check_s": 0.2, "action_s": 0.3}}
MODEL = "NVIDIA H100 80GB HBM3"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    start = options(Path(tmp_path_factory.mktemp("harness")), nodes=6)
    settings = {**start.settings, "preflight": WORK, "telemetry": {"enabled": False}}
    async with open_harness(start.model_copy(update={"settings": settings})) as running:
        yield running


async def show(harness: Harness, node: str, *, xids: dict[int, int]) -> None:
    """A reading of the node, as the telemetry service puts it on the bus."""
    described = next(
        fact.payload for fact in await harness.facts() if fact.name == "joined" and fact.subject_id == node
    )
    uuids = described.gpu_uuids  # type: ignore[attr-defined]
    devices = tuple(
        DeviceSample(
            index=index, uuid=uuid, utilisation_pct=90, memory_used_mib=1, memory_total_mib=81_559, power_w=300,
            temperature_c=60, xid=xids.get(index, 0), remap_pending=False, remap_failed=False,
        )
        for index, uuid in enumerate(uuids)
    )  # fmt: skip
    sample = NodeSample(node=node, at=time.time_ns(), gpu_model=MODEL, devices=devices, gpus_expected=len(devices))
    async with harness.connection("telemetry") as client:
        await client.publish(telemetry_subject(harness.settings.cluster, node), sample.model_dump_json().encode())
        await client.flush()


async def of(harness: Harness, subject: str) -> list[Fact]:
    return [fact for fact in await harness.facts() if fact.subject_id == subject]


async def running(harness: Harness, job_id: str) -> tuple[str, ...]:
    """The nodes of the job once it runs."""

    async def runs() -> bool:
        return (await harness.muster.get(job_id)).phase is Phase.RUNNING

    await until_async(runs)
    return (await harness.muster.get(job_id)).nodes


async def test_a_gang_on_a_gpu_that_fell_off_the_bus_runs_elsewhere_and_the_node_comes_back(harness: Harness) -> None:
    wanted = job("sixteen", gpus=8, replicas=2, run_s=600.0, retries=0)
    submitted = await harness.muster.submit(wanted)
    sick, _ = await running(harness, submitted.id)
    await show(harness, sick, xids={3: 79})

    async def is_elsewhere() -> bool:
        view = await harness.muster.get(submitted.id)
        return view.phase is Phase.RUNNING and sick not in view.nodes

    await until_async(is_elsewhere)
    facts = await of(harness, submitted.id)
    again = [fact for fact in facts if isinstance(fact.payload, JobQueued)][1]
    seen = next(fact for fact in await of(harness, sick) if fact.name == "fault-observed")
    assert seconds_between(seen.time, again.time) < 2.0
    assert (await harness.muster.get(submitted.id)).retries_used == 0

    async def is_back() -> bool:
        return any(node.name == sick and node.usable for node in await harness.muster.nodes())

    await until_async(is_back)
    story = [fact.name for fact in await of(harness, sick) if fact.writer == "health"]
    assert story == [
        "fault-observed", "suspect", "withhold-requested", "quarantined", "repairing", "action-requested", "verifying",
        "checks-requested", "healthy", "withhold-withdrawn",
    ]  # fmt: skip
    actions = [fact.payload for fact in await of(harness, sick) if isinstance(fact.payload, NodeActionRequested)]
    assert [one.action for one in actions] == [NodeAction.REBOOT]
    await harness.muster.cancel(submitted.id)


async def test_an_owner_is_told_of_its_programs_fault_and_its_job_runs_on(harness: Harness) -> None:
    submitted = await harness.muster.submit(job("faulty", gpus=8, run_s=600.0))
    (node,) = await running(harness, submitted.id)
    await show(harness, node, xids={0: 31})

    async def is_told() -> bool:
        return any(fact.name == "fault-told" for fact in await of(harness, submitted.id))

    await until_async(is_told)
    answer = await harness.muster.condition(node)
    assert answer.conditions == ()
    assert [mark.code for mark in answer.marks][:1] == ["xid-31"]
    assert (await harness.muster.get(submitted.id)).phase is Phase.RUNNING
    await harness.muster.cancel(submitted.id)


async def test_people_see_what_is_sick_while_it_is(harness: Harness) -> None:
    submitted = await harness.muster.submit(job("there", gpus=8, run_s=600.0))
    (node,) = await running(harness, submitted.id)
    await show(harness, node, xids={0: 94})  # the job there may finish

    async def is_seen() -> bool:
        return [one.phase.value for one in (await harness.muster.conditions()).conditions] == ["suspect"]

    await until_async(is_seen)
    (sick,) = (await harness.muster.conditions()).conditions
    assert (sick.kind, sick.node, [one.told.code for one in sick.faults]) == ("device", node, ["xid-94"])
    assert (await harness.muster.get(submitted.id)).phase is Phase.RUNNING
    await harness.muster.cancel(submitted.id)

    async def is_well() -> bool:
        return not (await harness.muster.conditions()).conditions

    await until_async(is_well)
