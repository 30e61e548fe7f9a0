"""Jobs make way on the real servers: with notice, a last checkpoint and a resumed run, or with fewer pods."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kit.stack.living import TEAM, Harness, job, open_harness, options
from kit.waiting import until_async
from muster.core import Fact
from muster.schemas.facts.job import JobQueued, JobResized, PodsExited, QueuedReason
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import Checkpointing, Phase, TaskGroup

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module")]

NODES = 2
RESTART_S = 1.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    async with open_harness(options(Path(tmp_path_factory.mktemp("harness")), nodes=NODES)) as running:
        await running.muster.set_queue(QueueSpec(name=TEAM))
        yield running


async def facts_of(harness: Harness, job_id: str) -> list[Fact]:
    return [fact for fact in await harness.facts() if fact.subject_id == job_id]


async def test_a_preempted_job_saves_its_work_and_goes_on_from_there(harness: Harness) -> None:
    checkpointing = Checkpointing(restart_s=RESTART_S).model_dump()
    low = job("low", gpus=8, replicas=NODES, run_s=6.0, priority=10, min_slice_s=0, checkpointing=checkpointing)
    saved = await harness.muster.submit(low)
    await harness.job_that(saved.id, lambda view: view.phase is Phase.RUNNING)
    urgent = await harness.muster.submit(job("urgent", gpus=8, replicas=NODES, priority=90))
    ended = await harness.ended([urgent.id, saved.id])
    assert [view.phase for view in ended] == [Phase.SUCCEEDED] * 2
    facts = await facts_of(harness, saved.id)
    names = [fact.name for fact in facts]
    told = ["running", "stop-requested", "checkpointed", "pods-exited", "queued", "placed"]
    assert [name for name in names[names.index("running") :] if name in told][: len(told)] == told
    again = [fact.payload for fact in facts if isinstance(fact.payload, JobQueued)][-1]
    assert again.reason is QueuedReason.PREEMPTED
    first, second = (fact.payload for fact in facts if isinstance(fact.payload, PodsExited))
    assert second.ran_s < 6.0 + RESTART_S - first.ran_s / 2, "what was saved was not done again"
    assert await harness.violations([saved.id, urgent.id]) == []


async def test_an_elastic_job_gives_up_replicas_for_another_and_takes_them_back(harness: Harness) -> None:
    group = TaskGroup(gpus=8, replicas=NODES, min_replicas=1, cpu_milli=100, memory_mib=100).model_dump()
    elastic = await harness.muster.submit(job("elastic", task_groups=(group,), run_s=14.0, priority=10, min_slice_s=0))
    await harness.job_that(elastic.id, lambda view: view.phase is Phase.RUNNING)
    urgent = await harness.muster.submit(job("urgent-too", gpus=8, priority=90))
    await harness.ended([urgent.id])

    async def sizes() -> list[int]:
        facts = await facts_of(harness, elastic.id)
        return [len(fact.payload.slots) for fact in facts if isinstance(fact.payload, JobResized)]

    async def grown() -> bool:
        return await sizes() == [1, NODES]

    await until_async(grown)
    (ended,) = await harness.ended([elastic.id])
    assert ended.phase is Phase.SUCCEEDED
    assert [fact.name for fact in await facts_of(harness, elastic.id)].count("placed") == 1, "it was never stopped"
    assert await harness.violations([elastic.id, urgent.id]) == []
