"""Jobs that wait or run: hold, release, give another priority. The scheduler answers with facts of the job."""

from typing import Annotated

from fastapi import APIRouter, Depends

from muster.gateway.api.bodies import JsonBody
from muster.gateway.api.dependencies import Caller, Context
from muster.gateway.api.openapi import OF_BODIES, refusals
from muster.gateway.api.parameters import IdempotencyKey, JobId, Reason
from muster.gateway.authorise import refuse_unless_acting_for
from muster.gateway.ports import JobRequest
from muster.gateway.problems import conflict
from muster.gateway.submit import refuse_priority
from muster.schemas.facts.job_wishes import Ask, JobHoldRequested, JobPriorityRequested
from muster.schemas.job import Phase, PriorityChange
from muster.schemas.views import JobView

router = APIRouter(tags=["jobs"], responses=refusals(403, 404, 409, 410))
_REQUESTED = "Requested; the job as it is now"
_HOLDING = frozenset({Phase.PLACED, Phase.RUNNING, Phase.STOPPING})


def job_to(verb: str) -> object:
    """Return the dependency on the live job of the path, for a caller who acts for its team.

    It raises ProblemError: 403 for other callers, 404, and 409 if the job has ended. verb: what they may not.
    """

    async def live_job(caller: Caller, context: Context, job_id: JobId) -> JobView:
        job = await context.views.job_view(job_id)
        refuse_unless_acting_for(caller, job.team, verb=verb)
        if job.phase.is_terminal:
            raise conflict(f"job {job.id} has ended: {job.phase.value}", field="job_id")
        return job

    return Depends(live_job)


@router.post(
    "/v1/jobs/{job_id}/hold", status_code=202, summary="Hold a job that waits", response_description=_REQUESTED
)
async def hold_job(
    caller: Caller, context: Context, job: Annotated[JobView, job_to("hold")], key: IdempotencyKey, reason: Reason = ""
) -> JobView:
    """It is passed over, keeps its place in line and loses any reservation. 409 for one that has its places already."""
    if job.phase in _HOLDING:
        raise conflict(
            f"job {job.id} is {job.phase.value}: only a job that waits can be held",
            field="job_id",
            cure="Cancel it, or hold it when it waits again.",
        )
    payload = JobHoldRequested(principal=caller.name, reason=reason)
    await context.log.request_of_job(job, JobRequest(Ask.HOLD, payload), key=key)
    return job


@router.post(
    "/v1/jobs/{job_id}/release", status_code=202, summary="Release a job that is held", response_description=_REQUESTED
)
async def release_job(
    caller: Caller,
    context: Context,
    job: Annotated[JobView, job_to("release")],
    key: IdempotencyKey,
    reason: Reason = "",
) -> JobView:
    """It stands in line again where it stood. One that is not held stays as it is, and a fact says so."""
    payload = JobHoldRequested(principal=caller.name, reason=reason)
    await context.log.request_of_job(job, JobRequest(Ask.RELEASE, payload), key=key)
    return job


@router.post(
    "/v1/jobs/{job_id}/priority",
    status_code=202,
    summary="Give a job another priority",
    response_description=_REQUESTED,
    responses=refusals(*OF_BODIES),
)
async def prioritise_job(
    caller: Caller,
    change: Annotated[PriorityChange, Depends(JsonBody(PriorityChange))],
    context: Context,
    job: Annotated[JobView, job_to("prioritise jobs")],
    key: IdempotencyKey,
) -> JobView:
    """0 to what the role and the queue allow, as at submission.

    A waiting job moves in line; of a running one it says how soon it makes way.
    """
    await refuse_priority(context, caller, change.priority, queue=job.queue)
    payload = JobPriorityRequested(principal=caller.name, priority=change.priority, reason=change.reason)
    await context.log.request_of_job(job, JobRequest(Ask.PRIORITY, payload), key=key)
    return job
