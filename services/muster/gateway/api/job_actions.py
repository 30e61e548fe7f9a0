"""Jobs that wait or run: hold, release, give another priority. The scheduler answers with facts of the job."""

from fastapi import APIRouter, Request, Response

from muster.gateway.api import answers
from muster.gateway.api.describe import describe, header, path, query, reference
from muster.gateway.authorise import refuse_unless_acting_for
from muster.gateway.changes import key_of
from muster.gateway.context import AppContext, body_of, context_of, job_id_of, principal_of, reason_of
from muster.gateway.ports import JobRequest
from muster.gateway.problems import conflict
from muster.gateway.submit import refuse_priority
from muster.schemas.base import parse_request
from muster.schemas.facts.job_wishes import Ask, JobHoldRequested, JobPriorityRequested
from muster.schemas.job import Phase, PriorityChange
from muster.schemas.views import JobView

router = APIRouter(tags=["jobs"])
_JOB_ID = path("job_id", "Id of the job")
_REASON = query("reason", "Why, for the record")
_KEY = header("Idempotency-Key", "The same key is the same request")
_ASKED: dict[int, tuple[str, dict[str, object] | None]] = {202: ("Requested; the job as it is now", reference(JobView))}
_HOLDING = frozenset({Phase.PLACED, Phase.RUNNING, Phase.STOPPING})


@router.post(
    "/v1/jobs/{job_id}/hold",
    summary="Hold a job that waits",
    **describe(_ASKED, refusals=(401, 403, 404, 409, 410, 422, 503), parameters=(_JOB_ID, _REASON, _KEY)),
)
async def hold_job(request: Request) -> Response:
    """It is passed over, keeps its place in line and loses any reservation. 409 for one that has its places already."""
    principal, reason = principal_of(request), reason_of(request)
    context, job = await job_for(request, verb="hold")
    if job.phase in _HOLDING:
        raise conflict(
            f"job {job.id} is {job.phase.value}: only a job that waits can be held",
            field="job_id",
            cure="Cancel it, or hold it when it waits again.",
        )
    payload = JobHoldRequested(principal=principal.name, reason=reason)
    await context.log.request_of_job(job, JobRequest(Ask.HOLD, payload), key=key_of(request))
    return answers.model(job, status=202)


@router.post(
    "/v1/jobs/{job_id}/release",
    summary="Release a job that is held",
    **describe(_ASKED, refusals=(401, 403, 404, 409, 410, 422, 503), parameters=(_JOB_ID, _REASON, _KEY)),
)
async def release_job(request: Request) -> Response:
    """It stands in line again where it stood. One that is not held stays as it is, and a fact says so."""
    principal, reason = principal_of(request), reason_of(request)
    context, job = await job_for(request, verb="release")
    payload = JobHoldRequested(principal=principal.name, reason=reason)
    await context.log.request_of_job(job, JobRequest(Ask.RELEASE, payload), key=key_of(request))
    return answers.model(job, status=202)


@router.post(
    "/v1/jobs/{job_id}/priority",
    summary="Give a job another priority",
    **describe(
        _ASKED,
        refusals=(400, 401, 403, 404, 409, 410, 413, 422, 503),
        parameters=(_JOB_ID, _KEY),
        body=PriorityChange,
    ),
)
async def prioritise_job(request: Request) -> Response:
    """0 to what the role and the queue allow, as at submission.

    A waiting job moves in line; of a running one it says how soon it makes way.
    """
    principal = principal_of(request)
    change = parse_request(PriorityChange, await body_of(request))
    context, job = await job_for(request, verb="prioritise jobs")
    await refuse_priority(context, principal, change.priority, queue=job.queue)
    payload = JobPriorityRequested(principal=principal.name, priority=change.priority, reason=change.reason)
    await context.log.request_of_job(job, JobRequest(Ask.PRIORITY, payload), key=key_of(request))
    return answers.model(job, status=202)


async def job_for(request: Request, *, verb: str) -> tuple[AppContext, JobView]:
    """The live job of the path. Raises ProblemError: 403 to whoever does not act for its team, 409 if it has ended."""
    context = context_of(request)
    job = await context.views.job_view(job_id_of(request))
    refuse_unless_acting_for(principal_of(request), job.team, verb=verb)
    if job.phase.is_terminal:
        raise conflict(f"job {job.id} has ended: {job.phase.value}", field="job_id")
    return context, job
