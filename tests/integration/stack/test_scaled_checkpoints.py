"""Devices and nodes that came after the start, on a log that no longer tells how: all goes on as it stood."""

import asyncio
import shutil
from pathlib import Path
from typing import cast

import pytest

from kit.stack.devices import DevicesHarness, Json, open_devices_harness, settings_with, switching
from kit.stack.living import Harness, job
from kit.waiting import until_async
from muster.bus.checkpoint_store import NatsCheckpoints
from muster.cli import log_files
from muster.schemas.devices import AttachmentPhase, ComposabilitySpec, RequestPhase
from muster.schemas.job import Phase
from muster.schemas.subjects import cluster_log
from muster_tools.demo.settings import BIG, MODEL, WORKER_COUNT, WORKER_MEMORY_MIB

pytestmark = [pytest.mark.connected, pytest.mark.timeout(300)]

CHECKPOINT_EVERY_FACTS = 60
NEVER_S = 3_600.0
BREAKER_S = 8.0
"""Long enough that the failing fabric is the subject of few facts: leaders' fences stay in what is not cut off."""


def settings(*, refuse_share: float) -> Json:
    """Nothing goes for being idle; the log may be cut at any age. refuse_share: of calls, from the start on."""
    changed = settings_with(
        scaling={"gpu_idle_s": NEVER_S, "node_unneeded_s": NEVER_S},
        scheduler={"checkpoint_every_facts": CHECKPOINT_EVERY_FACTS},
        bus={"trim_keep_s": 0.0},
        composer={"attempts_max": 100, "breaker_s": BREAKER_S},
    )
    fabric = switching(0.2)
    cast("Json", fabric["simulated"])["refuse_share"] = refuse_share
    return changed | {"fabrics": [fabric]}


async def fill(there: DevicesHarness) -> list[str]:
    """All GPUs in use, one more attached by choice, one by hand, a node added; a job for which the fabric fails."""
    stage = there.stage
    ids = [await stage.submit(f"tenant-{number}", gpus=1) for number in range(WORKER_COUNT + 1)]
    ids.append(await stage.submit("large", memory_mib=4 * WORKER_MEMORY_MIB))
    for job_id in ids:
        await stage.running(job_id)
    await there.harness.muster.compose(ComposabilitySpec(model=MODEL, size=1), name="by-hand")
    await until_async(lambda: is_online(there, "by-hand"))
    await until_async(lambda: nothing_is_open(there))
    await there.behave(refuse_share=1.0)
    waits = await stage.submit("waits", gpus=2)
    await there.said("breaker-opened")
    return [*ids, waits]


async def is_online(there: DevicesHarness, name: str) -> bool:
    request = await there.harness.muster.composability_request(name)
    return bool(request.resources) and all(one.phase is AttachmentPhase.ONLINE for one in request.resources)


async def nothing_is_open(there: DevicesHarness) -> bool:
    choices = await there.harness.muster.scale_choices()
    return len(choices) >= 2 and all(choice.outcome for choice in choices)


async def told_by_checkpoints(harness: Harness, seq: int) -> bool:
    """Whether both kept checkpoints are younger; if not, something is done, so that there will be more."""
    async with harness.connection() as client:
        pointer, _ = await NatsCheckpoints(client).pointer(cluster_log(harness.settings.cluster).stream)
    if len(pointer.checkpoints) >= 2 and pointer.checkpoints[-1].seq > seq:
        return True
    await harness.ended([(await harness.muster.submit(job("one-more", gpus=0, run_s=0.1))).id])
    return False


async def trim(harness: Harness, archive: Path) -> int:
    """As `muster log trim --yes` does; the first sequence that is left."""
    await asyncio.to_thread(log_files.trim, harness.settings.state_dir, "", archive=archive, yes=True)
    return (await harness.facts())[0].seq


async def shown(there: DevicesHarness, job_ids: list[str]) -> dict[str, object]:
    """What people see of jobs, nodes, devices, requests and choices under way; not how often was tried in vain."""
    muster = there.harness.muster
    devices, choices = await muster.devices(), await muster.scale_choices()
    requests, nodes = await muster.composability_requests(), await muster.nodes()
    jobs, standing = [await muster.get(job_id) for job_id in job_ids], AttachmentPhase.ONLINE
    return {
        "jobs": [(view.id, view.phase, view.nodes, view.attempt) for view in jobs],
        "nodes": {node.name: (node.group, node.usable, node.gpus, node.gpu_model, node.jobs) for node in nodes},
        "devices": {one.id: (one.device_uuid, one.node, one.origin, one.request, one.holders, one.phase is standing)
                    for one in devices},
        "requests": {one.name: (one.spec, one.phase, one.origin, one.jobs) for one in requests},
        "choices": {one.id: (one.name, one.jobs, one.count, one.reason) for one in choices if not one.outcome},
        "pools": [fabric.pool for fabric in await muster.fabrics()],
    }  # fmt: skip


async def test_what_was_attached_and_added_goes_on_from_a_checkpoint_alone(tmp_path: Path) -> None:
    state_dir = tmp_path / "state"
    async with open_devices_harness(state_dir, settings(refuse_share=0.0)) as there:
        ids = await fill(there)
        last_seq = (await there.facts("breaker-opened"))[-1].seq
        await until_async(lambda: told_by_checkpoints(there.harness, last_seq))
        chosen = max(fact.seq for fact in await there.facts("gpu-attach-chosen", "node-add-chosen", "joined"))
    # A new term of every service, so that no leader's fence stands in what is cut off.
    async with open_devices_harness(state_dir, settings(refuse_share=1.0)) as there:
        assert await trim(there.harness, tmp_path / "cut.gz") > chosen, "how devices and nodes came is told no more"
        before = await shown(there, ids)
        assert len(cast("Json", before["choices"])) == 1
    shutil.rmtree(state_dir / "redis")
    async with open_devices_harness(state_dir, settings(refuse_share=1.0)) as there:
        assert await shown(there, ids) == before
        assert BIG in {node.group for node in await there.harness.muster.nodes()}
        await there.behave(refuse_share=0.0)
        for job_id in ids:
            await there.stage.running(job_id)
        assert [(await there.harness.muster.get(job_id)).attempt for job_id in ids] == [1] * len(ids)
        await there.harness.muster.compose(ComposabilitySpec(model=MODEL, size=1), name="afterwards")
        await until_async(lambda: is_online(there, "afterwards"))
        await until_async(lambda: _stands(there))
        await there.stage.end(*ids)
        assert {(await there.harness.muster.get(job_id)).phase for job_id in ids} == {Phase.CANCELLED}
        await there.harness.muster.decompose("by-hand")
        await until_async(lambda: is_over(there, "by-hand"))


async def is_over(there: DevicesHarness, name: str) -> bool:
    return (await there.harness.muster.composability_request(name)).phase is RequestPhase.ENDED


async def _stands(there: DevicesHarness) -> bool:
    return not await there.books()
