"""What a job's devices measured, and what it printed."""

from fastapi import APIRouter, Request, Response

from muster.gateway.api import answers
from muster.gateway.api.describe import describe, path, query, reference
from muster.gateway.authorise import refuse_unless_acting_for
from muster.gateway.context import AppContext, context_of, count_of, job_id_of, principal_of
from muster.gateway.problems import unavailable
from muster.gateway.readings import Readings
from muster.schemas.live import JobReadings, OutputPage

SINCE_S_DEFAULT = 900
SINCE_S_MAX = 900  # so long the stream keeps them
LINES_DEFAULT = 200
LINES_MAX = 2_000

router = APIRouter(tags=["jobs"])
_JOB_ID = path("job_id", "Id of the job")
_NO_STORE = {"Cache-Control": "no-store"}


@router.get(
    "/v1/jobs/{job_id}/telemetry",
    summary="What a job's devices measured",
    **describe(
        {200: ("As far as it is kept, on the first 64 nodes of the job", reference(JobReadings))},
        refusals=(401, 404, 410, 422, 503),
        parameters=(_JOB_ID, query("since_s", f"Seconds to look back, at most {SINCE_S_MAX}", kind="integer")),
    ),
)
async def job_telemetry(request: Request) -> Response:
    """Utilisation, temperature, memory and power of every device, over the last while."""
    principal_of(request)
    context = context_of(request)
    since_s = count_of(request, name="since_s", default=SINCE_S_DEFAULT, most=SINCE_S_MAX)
    job = await context.views.job_view(job_id_of(request))
    return answers.model(await _readings(context).of_job(job, since_s=since_s), headers=_NO_STORE)


@router.get(
    "/v1/jobs/{job_id}/output",
    summary="What a job printed",
    **describe(
        {200: ("The newest lines, oldest first", reference(OutputPage))},
        refusals=(401, 403, 404, 410, 422, 503),
        parameters=(_JOB_ID, query("lines", f"How many, at most {LINES_MAX}", kind="integer")),
    ),
)
async def job_output(request: Request) -> Response:
    """For who acts for its team alone: a program prints what it likes."""
    principal = principal_of(request)
    context = context_of(request)
    lines = count_of(request, name="lines", default=LINES_DEFAULT, most=LINES_MAX)
    job = await context.views.job_view(job_id_of(request))
    refuse_unless_acting_for(principal, job.team, verb="read the output of jobs")
    return answers.model(await _readings(context).output(job, lines=lines), headers=_NO_STORE)


def _readings(context: AppContext) -> Readings:
    if context.live is None:
        raise unavailable("this gateway serves no live view")
    return context.live.readings
