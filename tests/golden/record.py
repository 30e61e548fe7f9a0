"""Records the golden logs: `make golden`. A small stack lives through everything that its cores have a word for.

Record anew only when facts were added that the logs shall hold; the old archives must fold until then. `GOLDEN_LOGS`
names another folder to record into.
"""

import asyncio
import tempfile
from pathlib import Path

from golden.device_story import DeviceStory
from golden.logs import CLUSTER, DEVICE_FACTS, LOGS, SETTINGS, archive_of
from kit.stack.living import TEAM, Harness, job, open_harness, options
from kit.waiting import until_async
from muster.bus.archive import export_log
from muster.schemas.facts.queue import GPU, QueueSpec
from muster.schemas.job import JobSpec, Phase, TaskGroup

FAILING = {"sim.muster.dev/run-s": "0.2", "sim.muster.dev/exit-code": "3"}
ROUNDS_MAX = 60

WANTED = frozenset(
    {
        "routed", "queued", "placed", "pods-started", "running", "pods-exited", "stop-requested", "unschedulable",
        "succeeded", "failed", "cancelled", "timed-out", "cancel-forwarded", "change-forwarded", "changed",
        "hold-forwarded", "held", "release-forwarded", "unheld", "priority-forwarded", "reprioritised",
        "checkpointed", "reserved", "resize-requested", "pods-resized", "resized",
        "joined", "lost", "returned", "released", "summarised", "checkpoint-requested", "fence", "term-started",
        *DEVICE_FACTS,
    }
)  # fmt: skip
"""What the cluster's log must tell of before the recording ends."""


async def record() -> None:
    """Live through it and export both logs."""
    with tempfile.TemporaryDirectory(prefix="muster-golden-") as directory:
        started = options(Path(directory)).model_copy(update={"cluster": CLUSTER, "settings": SETTINGS})
        async with open_harness(started) as harness:
            devices = DeviceStory(harness)
            others, _ = await asyncio.gather(_story(harness), devices.tell())
            accepted = devices.accepted + others
            for _ in range(ROUNDS_MAX):  # nodes fail when they do; a gang over all of them is hit sooner or later
                facts = await harness.facts()
                retried = {fact.subject_id for fact in facts if getattr(fact.payload, "attempt", 1) > 1}
                if {fact.name for fact in facts} >= WANTED and retried & set(accepted[-1:]):
                    break
                accepted += await _making_way(harness)
                accepted += [await _submit(harness, job("wide", gpus=4, replicas=6, run_s=3.0))]
                await harness.ended(accepted)
            else:
                raise AssertionError(f"never told: {sorted(WANTED - {fact.name for fact in facts})}")
            broken = await harness.violations(accepted)
            assert not broken, broken
            await until_async(lambda: _all_reported(harness, accepted))
            await _export(harness)


async def _story(harness: Harness) -> list[str]:
    """Gangs, shares of a GPU, retries, a hold, cancels, an overrun, a changed queue. Ids of all jobs, all ended."""
    muster = harness.muster
    accepted = [await _submit(harness, job(f"gang-{n}", gpus=2, replicas=1 + n, run_s=0.3)) for n in range(4)]
    accepted += [await _submit(harness, _share(n)) for n in range(4)]
    accepted.append(await _submit(harness, job("cpu-only", gpus=0)))
    accepted.append(await _submit(harness, job("retried", retries=1, labels=FAILING)))
    accepted.append(await _submit(harness, job("overrun", run_s=60.0, total_run_time_s=1.0)))
    full = await _submit(harness, job("full", gpus=4, replicas=6, run_s=60.0))
    await harness.job_that(full, lambda view: view.phase is Phase.RUNNING)
    waiting = await _submit(harness, job("waiting", gpus=4, replicas=2, run_s=60.0))
    await _held_and_released(harness, waiting)
    await muster.cancel(waiting, reason="no longer wanted")
    await muster.set_queue(QueueSpec(name=TEAM, quota={GPU: 24_000}))
    await muster.cancel(full)
    accepted += [full, waiting]
    await harness.ended(accepted)
    return accepted


async def _held_and_released(harness: Harness, waiting: str) -> None:
    """A job that waits is held, moved in line while it is, and released."""
    muster = harness.muster
    await muster.hold(waiting, reason="wrong data")
    await harness.job_that(waiting, lambda view: view.held)
    await muster.prioritise(waiting, 90, reason="urgent")
    await harness.job_that(waiting, lambda view: view.priority == 90)
    await muster.release(waiting)
    await harness.job_that(waiting, lambda view: not view.held)


async def _making_way(harness: Harness) -> list[str]:
    """An elastic job gives up replicas for a more urgent one, and then all of them. Ids of the three, all ended."""
    group = TaskGroup(gpus=4, replicas=5, min_replicas=1, cpu_milli=100, memory_mib=100)
    elastic = job(
        "elastic", run_s=3.0, priority=10, min_slice_s=0, grace_s=1, task_groups=(group.model_dump(),),
        checkpointing={"interval_s": 0.5, "restart_s": 0.1},
    )  # fmt: skip
    accepted = [await _submit(harness, elastic)]
    await harness.job_that(accepted[0], lambda view: view.phase is Phase.RUNNING)
    for replicas in (5, 6):
        accepted.append(await _submit(harness, job("urgent", gpus=4, replicas=replicas, priority=90, run_s=0.3)))
        await harness.ended(accepted[-1:])
    await harness.ended(accepted)
    return accepted


async def _submit(harness: Harness, spec: JobSpec) -> str:
    return (await harness.muster.submit(spec)).id


def _share(number: int) -> JobSpec:
    shared = TaskGroup(gpu_milli=300, cpu_milli=100, memory_mib=100)
    return job(f"share-{number}", task_groups=(shared.model_dump(),), run_s=0.4)


async def _all_reported(harness: Harness, accepted: list[str]) -> bool:
    told = {fact.subject_id for fact in await harness.federation_facts() if fact.name == "job-ended"}
    return told >= set(accepted)


async def _export(harness: Harness) -> None:
    async with harness.connection() as connection:
        for log in LOGS:
            archived = await export_log(connection, log, archive_of(log))
            print(f"{archive_of(log)}: {archived.messages} messages")  # noqa: T201 - a script for people


if __name__ == "__main__":
    asyncio.run(record())
