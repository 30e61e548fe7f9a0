"""A whole stack whose jobs are processes of this machine: the worked example of an adapter, with real programs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kit.stack.living import Harness, job, open_harness, options
from kit.waiting import until, until_async
from muster.client import UnreachableError
from muster.schemas.job import Checkpointing, JobSpec, Phase

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module")]

BETWEEN = "trap 'exit 0' USR1; while true; do sleep 0.05; done"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    """Two nodes, whose jobs are processes of this machine."""
    directory = Path(tmp_path_factory.mktemp("harness"))
    asked = options(directory / "state", nodes=2)
    local = {"directory": str(directory / "jobs"), "checkpoint_poll_s": 0.1}
    async with open_harness(asked.model_copy(update={"settings": {**asked.settings, "local": local}})) as running:
        yield running


def program(name: str, *words: str, **fields: object) -> JobSpec:
    return job(name, command=("sh", "-c", *words), **fields)


def printed(harness: Harness, job_id: str, *, attempt: int = 1) -> str:
    assert harness.settings.local is not None
    return (harness.settings.local.directory / job_id / str(attempt) / "main-0.log").read_text()


async def answers(harness: Harness) -> bool:
    try:
        await harness.muster.queues()
    except UnreachableError:
        return False
    return True


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_programs_run_and_end_as_they_say(harness: Harness) -> None:
    good = await harness.muster.submit(program("good", "echo $MUSTER_NODE $CUDA_VISIBLE_DEVICES", gpus=2))
    bad = await harness.muster.submit(program("bad", "exit 3"))
    strange = await harness.muster.submit(job("strange", command=("no-such-program",)))
    ended = await harness.ended([good.id, bad.id, strange.id])
    assert [(view.phase, view.exit_code) for view in ended] == [
        (Phase.SUCCEEDED, 0),
        (Phase.FAILED, 3),
        (Phase.FAILED, 127),
    ]
    assert printed(harness, good.id) == f"{ended[0].nodes[0]} 0,1\n"
    assert await harness.violations([good.id, bad.id, strange.id]) == []


async def test_a_program_is_told_to_end_saves_its_work_and_ends_and_nothing_of_it_stays(harness: Harness) -> None:
    saves = "trap 'touch $MUSTER_CHECKPOINT; exit 143' TERM; sleep 300 & echo $!; while true; do sleep 0.05; done"
    often = Checkpointing(interval_s=60.0).model_dump()
    spec = program("saves", saves, checkpointing=often, grace_s=10.0, total_run_time_s=1.0)
    running = await harness.muster.submit(spec)
    (ended,) = await harness.ended([running.id])
    assert ended.phase is Phase.TIMED_OUT
    child = int(printed(harness, running.id).splitlines()[0])
    assert any(fact.name == "checkpointed" for fact in await harness.facts() if fact.subject_id == running.id)
    await until(lambda: not lives(child))


async def test_a_gang_ends_with_the_first_of_its_programs_that_fails(harness: Harness) -> None:
    gang = program("gang", f"test $MUSTER_REPLICA = 0 || exit 5; {BETWEEN}", replicas=3)
    (ended,) = await harness.ended([(await harness.muster.submit(gang)).id])
    assert (ended.phase, ended.exit_code) == (Phase.FAILED, 5)


async def test_what_ran_is_run_anew_when_its_agent_was_killed(harness: Harness) -> None:
    spec = program("anew", f"test $MUSTER_ATTEMPT = 1 || exit 0; echo $$; {BETWEEN}")
    running = await harness.muster.submit(spec)
    await harness.job_that(running.id, lambda view: view.phase is Phase.RUNNING)
    await until(lambda: printed(harness, running.id))
    first = int(printed(harness, running.id))
    assert lives(first)
    await harness.kill("all")
    await until_async(lambda: answers(harness))
    (ended,) = await harness.ended([running.id])
    assert (ended.phase, ended.attempt) == (Phase.SUCCEEDED, 2)
    assert not lives(first)
    assert await harness.violations([running.id]) == []
