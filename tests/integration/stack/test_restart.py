"""What a stack was told, it knows after a restart."""

from pathlib import Path

import pytest

from kit.stack.living import job, open_harness, options
from muster.schemas.job import Phase

pytestmark = [pytest.mark.connected]


async def test_no_job_is_lost_by_a_restart(tmp_path: Path) -> None:
    async with open_harness(options(tmp_path)) as harness:
        ended = (await harness.muster.submit(job("ended", run_s=0.1))).id
        await harness.ended([ended])
        running = (await harness.muster.submit(job("running", gpus=8, replicas=16, run_s=3.0))).id
        await harness.job_that(running, lambda view: view.phase is Phase.RUNNING)
        waiting = (await harness.muster.submit(job("waiting", gpus=8))).id
    async with open_harness(options(tmp_path)) as harness:
        assert (await harness.muster.get(ended)).phase is Phase.SUCCEEDED
        assert [view.phase for view in await harness.ended([running, waiting])] == [Phase.SUCCEEDED] * 2
        assert await harness.violations([ended, running, waiting]) == []
