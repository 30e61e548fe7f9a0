"""Routes of a job's device readings and output."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from muster.gateway.api.dependencies import Caller, Context
from muster.gateway.api.openapi import refusals
from muster.gateway.api.parameters import Count, JobId
from muster.gateway.authorise import refuse_unless_acting_for
from muster.gateway.context import AppContext
from muster.gateway.problems import unavailable
from muster.gateway.readings import Readings
from muster.schemas.live import JobReadings, OutputPage

SINCE_S_DEFAULT = 900
SINCE_S_MAX = 900  # how long the stream keeps them
LINES_DEFAULT = 200
LINES_MAX = 2_000

router = APIRouter(tags=["jobs"], responses=refusals(404, 410))


@router.get(
    "/v1/jobs/{job_id}/telemetry",
    summary="Get the readings of a job's devices",
    response_description="Kept readings, of the first 64 nodes of the job",
)
async def job_telemetry(
    context: Context,
    job_id: JobId,
    response: Response,
    since_s: Annotated[
        int, Query(description=f"Seconds to look back, at most {SINCE_S_MAX}"), Count(SINCE_S_MAX)
    ] = SINCE_S_DEFAULT,
) -> JobReadings:
    """Return utilization, temperature, memory and power of every device over the last `since_s` seconds."""
    response.headers["Cache-Control"] = "no-store"
    job = await context.views.job_view(job_id)
    return await _readings(context).of_job(job, since_s=since_s)


@router.get(
    "/v1/jobs/{job_id}/output",
    summary="Get the output of a job",
    response_description="The newest lines, oldest first",
    responses=refusals(403),
)
async def job_output(
    caller: Caller,
    context: Context,
    job_id: JobId,
    response: Response,
    lines: Annotated[int, Query(description=f"Number of lines, at most {LINES_MAX}"), Count(LINES_MAX)] = LINES_DEFAULT,
) -> OutputPage:
    """Return the output; only for callers who act for the job's team, as output may hold anything."""
    job = await context.views.job_view(job_id)
    refuse_unless_acting_for(caller, job.team, verb="read the output of jobs")
    response.headers["Cache-Control"] = "no-store"
    return await _readings(context).output(job, lines=lines)


def _readings(context: AppContext) -> Readings:
    if context.live is None:
        raise unavailable("this gateway serves no live view")
    return context.live.readings
