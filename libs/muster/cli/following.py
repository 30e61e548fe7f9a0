"""Facts as they come: printed, or waited for."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from muster.cli import output, tables
from muster.cli.errors import JobsFailedError
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.session import connected
from muster.schemas.job import Phase
from muster.schemas.views import FactView, JobView

if TYPE_CHECKING:
    from muster.client import Muster

POLL_S = 1.0  # between questions for the phase of jobs that are waited for


def facts(state_dir: Path, form: Output, *, job_id: str, team: str, follow: bool, limit: int) -> None:
    """Print facts, oldest first; with `follow` until Ctrl-C, or until the job has ended.

    One question alone is asked, or facts would be missed between two: a job that is followed is told from its first.
    """

    async def show() -> None:
        async with connected(state_dir) as muster:
            if follow:
                async for fact in muster.watch(job_id, team=team, newest=limit):
                    _print(fact, form)
            elif limit:
                for fact in await muster.events(job_id=job_id, team=team, limit=limit):
                    _print(fact, form)

    asyncio.run(show())


def job(state_dir: Path, form: Output, job_id: str) -> None:
    """Print one job's facts until it ends. Raises JobsFailedError unless it succeeds."""
    until_all_end(state_dir, [job_id], form)


def until_all_end(state_dir: Path, ids: Sequence[str], form: Output) -> None:
    """Print the facts of jobs until all have ended. Raises JobsFailedError if one did not succeed."""

    async def follow() -> list[JobView]:
        async with connected(state_dir) as muster, asyncio.TaskGroup() as group:
            tasks = [group.create_task(_to_the_end(muster, job_id, form)) for job_id in ids]
        return [task.result() for task in tasks]

    ended = asyncio.run(follow())
    unhappy = [job for job in ended if job.phase is not Phase.SUCCEEDED]
    if unhappy:
        told = "; ".join(f"{job.id} {job.phase.value}{': ' + job.reason if job.reason else ''}" for job in unhappy)
        raise JobsFailedError(f"{told}; `muster trace ID` shows how it came to that")


async def _to_the_end(muster: "Muster", job_id: str, form: Output) -> JobView:
    async for fact in muster.watch(job_id):
        _print(fact, form)
        if fact.kind == "job" and fact.name in ("succeeded", "failed", "cancelled", "timed-out"):
            break
    job = await muster.get(job_id)
    while not job.phase.is_terminal:  # the read model follows the log with a moment's delay
        await asyncio.sleep(POLL_S)
        job = await muster.get(job_id)
    return job


def _print(fact: FactView, form: Output) -> None:
    if form is Output.JSON:
        output.emit_lines([fact])
    else:
        print_line(tables.fact_line(fact))
