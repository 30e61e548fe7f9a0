"""Ended jobs through a whole stack: the list by end, the history and the report."""

import csv
import io
from pathlib import Path

import pytest

from kit.stack.living import command, job, open_harness, options

pytestmark = pytest.mark.connected


async def test_ended_jobs_are_in_the_history_and_the_report(tmp_path: Path) -> None:
    async with open_harness(options(tmp_path, nodes=1)) as harness:
        muster, state_dir = harness.muster, harness.settings.state_dir
        ids = [(await muster.submit(job(name, gpus=2, run_s=0.2))).id for name in ("one", "two")]
        waits = (await muster.submit(job("runs", gpus=1, run_s=10_000))).id
        await harness.ended(ids)
        ended = await muster.list(ended=True)
        assert {view.id for view in ended} == set(ids)
        assert [view.ended_at for view in ended] == sorted((view.ended_at for view in ended), reverse=True)
        first = ended[-1]
        assert [view.id for view in await muster.list(ended=True, ended_before=first.ended_at + 1)] == [first.id]
        assert [view.id for view in await muster.list(ended=True, ended_from=first.ended_at + 1)] == [ended[0].id]
        assert not await muster.list(ended=True, user="nobody")

        rows = list(
            csv.DictReader(io.StringIO(await command(state_dir, "history", "--state", "succeeded", "-o", "csv")))
        )
        assert [row["JOBID"] for row in rows] == [view.id for view in ended]
        assert {row["GPUS"] for row in rows} == {"2"}
        report = list(
            csv.DictReader(io.StringIO(await command(state_dir, "report", "usage", "--by", "job", "-o", "csv")))
        )
        assert {row["JOB"] for row in report} == set(ids)
        assert waits not in {row["JOB"] for row in report}, "it runs"
