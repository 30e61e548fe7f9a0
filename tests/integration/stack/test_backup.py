"""A stack comes back from the archives of its logs alone."""

import shutil
from pathlib import Path

import pytest

from kit.stack.living import command, job, open_harness, options
from muster.schemas.job import Phase

pytestmark = [pytest.mark.connected, pytest.mark.timeout(240)]


async def test_jobs_and_states_come_back_from_archives_and_the_harness_goes_on(tmp_path: Path) -> None:
    state_dir = tmp_path / "state"
    archives = {name: str(tmp_path / f"{name}.gz") for name in ("local", "fed")}
    async with open_harness(options(state_dir)) as harness:
        ended = (await harness.muster.submit(job("ended"), idempotency_key="ended")).id
        await harness.ended([ended])
        running = (await harness.muster.submit(job("running", gpus=8, replicas=16, run_s=10_000))).id
        await harness.job_that(running, lambda view: view.phase is Phase.RUNNING)
        waiting = (await harness.muster.submit(job("waiting", gpus=8))).id
        await harness.job_that(waiting, lambda view: view.phase is Phase.QUEUED)
        for name, path in archives.items():
            await command(state_dir, "log", "export", path, "--log", name)
        before = [
            (await harness.muster.get(job_id)).model_copy(update={"seq": 0}) for job_id in (ended, running, waiting)
        ]
    shutil.rmtree(state_dir)
    with pytest.raises(AssertionError, match="import its archive first"):  # else its jobs would all run once more
        await command(state_dir, "log", "import", archives["fed"], "--log", "fed")
    for name in ("local", "fed"):
        await command(state_dir, "log", "import", archives[name], "--log", name)
    async with open_harness(options(state_dir)) as harness:
        after = [
            (await harness.muster.get(job_id)).model_copy(update={"seq": 0}) for job_id in (ended, running, waiting)
        ]
        assert [(view.id, view.phase, view.slots) for view in after] == [(v.id, v.phase, v.slots) for v in before]
        assert (await harness.muster.submit(job("ended"), idempotency_key="ended")).id == ended
        await harness.muster.cancel(running)
        late = (await harness.muster.submit(job("late"))).id
        views = await harness.ended([running, waiting, late])
        assert [view.phase for view in views] == [Phase.CANCELLED, Phase.SUCCEEDED, Phase.SUCCEEDED]
        assert await harness.violations([ended, running, waiting, late]) == []
        told = [fact.subject_id for fact in await harness.federation_facts() if fact.name == "job-ended"]
        assert sorted(told) == sorted(set(told)), "an end that was told before the backup is not told again"
