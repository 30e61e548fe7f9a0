"""Jobs: submit, look, ask why, cancel."""

import os
import re
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import AfterValidator, BeforeValidator

from muster.gateway.api import answers, sse
from muster.gateway.api.bodies import read_body
from muster.gateway.api.dependencies import Caller, Context, EveryClusterContext, caller_of, context_for, context_of
from muster.gateway.api.job_actions import job_to
from muster.gateway.api.openapi import OF_BODIES, accepted, listing, parameter, read_by_handler, reference, refusals
from muster.gateway.api.parameters import Count, Flag, JobId, Reason, read_flag, read_here, read_job_id, refused
from muster.gateway.context import AppContext
from muster.gateway.explaining import waits, with_scaling, without_cluster
from muster.gateway.metrics import is_about
from muster.gateway.ports import JobFilter, UnreachableError
from muster.gateway.problems import ProblemError
from muster.gateway.submit import Submission, dry_run, submit
from muster.gateway.views import as_submitted
from muster.schemas.facts.job import JobCancelRequested
from muster.schemas.job import JobSpec, Phase
from muster.schemas.members import AskAssignment, AssignmentView
from muster.schemas.queries import DryRunAnswer, WhyAnswer
from muster.schemas.views import FactView, JobView

PAGE_MAX = 1_000
PAGE_DEFAULT = 100
_CURSOR = re.compile(r"[0-9]{20}:[A-Z2-7]{26}")

router = APIRouter(tags=["jobs"], responses=refusals(404))
_JOB_ID = parameter("job_id", "Id of the job", place="path")


def _job_id(request: Request) -> str:
    return read_here(request.path_params["job_id"], read_job_id, field="job_id", default="")


def _cursor(text: str) -> str:
    if text and not _CURSOR.fullmatch(text):
        raise refused("no cursor of this list", cure="Send `next_cursor` of the page before.")
    return text


def _phase(given: object) -> Phase | None:
    text = str(given)
    try:
        return Phase(text) if text else None
    except ValueError:
        raise refused(f"{text[:40]!r} is no phase", cure=f"Use one of {', '.join(Phase)}.") from None


@router.post(
    "/v1/jobs",
    status_code=201,
    summary="Submit a job",
    response_model=JobView,
    response_description="Accepted: from here on the job is never lost",
    responses=accepted(
        "Accepted before, under the same key; or the answer to a dry run", JobView | DryRunAnswer, status=200
    )
    | refusals(*OF_BODIES, 403, 409),
    openapi_extra=read_by_handler(
        parameter(
            "Idempotency-Key",
            "The same key with the same body is the same job; without one a key is made",
            place="header",
        ),
        parameter("traceparent", "W3C trace context: the job's trace continues this one", place="header"),
        parameter("dry_run", "Only say what would happen (DryRunAnswer)", kind="boolean"),
        body={answers.JSON: {"schema": reference(JobSpec)}},
    ),
)
async def submit_job(request: Request) -> Response:
    """Everything that can be checked is checked first; then the job is stored, or it is refused."""
    caller = caller_of(request)
    context = context_for(caller, request)
    started_s = context.time.monotonic_s()
    sent = await read_body(request)
    if request.scope["query_string"] and read_here(
        request.query_params.get("dry_run"), read_flag, field="dry_run", default=False
    ):
        return answers.model(context.sight.dry_run(await dry_run(context, caller, sent)))
    headers = request.headers
    key = headers.get("idempotency-key", os.urandom(16).hex())
    try:
        stored = await submit(context, caller, Submission(sent, key, headers.get("traceparent", "")))
    except ProblemError as refusal:
        context.metrics.refused.labels(str(refusal.problem.status)).inc()
        raise
    is_about(request.scope, stored.job.trace)
    took_s = context.time.monotonic_s() - started_s
    context.metrics.submit_s.observe(took_s, context.metrics.exemplar(stored.job.trace, took_s))
    told = {"Location": f"/v1/jobs/{stored.job.id}", "Idempotency-Key": key}
    return answers.model(as_submitted(stored), status=201 if stored.is_new else 200, headers=told)


@router.get(
    "/v1/jobs",
    summary="List jobs, newest first",
    response_model=listing("jobs", JobView, has_pages=True),
    response_description="A page; pass `next_cursor` as `cursor` for the next, empty at the end",
)
async def list_jobs(
    context: EveryClusterContext,
    *,
    limit: Annotated[int, Query(description=f"Rows of a page, at most {PAGE_MAX}"), Count(PAGE_MAX)] = PAGE_DEFAULT,
    cursor: Annotated[str, Query(description="Where to go on"), AfterValidator(_cursor)] = "",
    team: Annotated[str, Query(description="Only this team's")] = "",
    queue: Annotated[str, Query(description="Only of this queue")] = "",
    phase: Annotated[Phase | None, Query(description="Only in this phase"), BeforeValidator(_phase)] = None,
    live: Annotated[Flag, Query(description="Only those that have not ended")] = False,
) -> Response:
    """Reads the read model only: without it there is no list."""
    wanted = JobFilter(team=team, queue=queue, phase=phase, live_only=live)
    page = await context.view.jobs(wanted, limit=limit, cursor=cursor)
    return answers.rows("jobs", page.rows, next_cursor=page.next_cursor)


@router.get(
    "/v1/jobs/{job_id}",
    summary="Look at a job",
    response_model=JobView,
    response_description="The job",
    responses=refusals(410),
    openapi_extra=read_by_handler(_JOB_ID),
)
async def get_job(request: Request) -> Response:
    """Never 404 for a job that was accepted."""
    return answers.encoded(await context_of(request).views.job(_job_id(request)))


@router.get(
    "/v1/jobs/{job_id}/events",
    summary="The facts of a job",
    response_model=listing("facts", FactView),
    response_description="All facts that are kept, by time; with `follow` as they come, until the job ends",
    responses=sse.STREAM,
    openapi_extra=read_by_handler(
        _JOB_ID,
        parameter("follow", "Keep the answer open (SSE) until the job ends", kind="boolean"),
        parameter("after", "With `follow`: leave out what this cursor covers (id of the last event)"),
        parameter("Last-Event-ID", "The same, as a browser sends it", place="header"),
    ),
)
async def job_events(request: Request) -> Response:
    """What happened to it."""
    context, job_id = context_of(request), _job_id(request)
    if read_here(request.query_params.get("follow"), read_flag, field="follow", default=False):
        await context.views.job(job_id)
        return sse.job_stream(context, job_id, after=sse.after_of(request))
    trail = await context.view.trail(job_id)
    if not trail:
        await context.views.job(job_id)
    return answers.rows("facts", trail)


@router.get("/v1/jobs/{job_id}/why", summary="Why a job is where it is", response_description="Position, reason, cure")
async def why(context: Context, job_id: JobId) -> WhyAnswer:
    """Asks the scheduler; what it does not know is told from the read side, what is done for the job by the scaler."""
    if context.sight.hides_jobs:
        await context.views.job(job_id)
    return context.sight.why(await _why(context, job_id), job_id)


@router.delete(
    "/v1/jobs/{job_id}",
    status_code=202,
    summary="Cancel a job",
    response_description="Requested; the job as it is now",
    responses=refusals(403, 409),
)
async def cancel_job(
    caller: Caller, context: Context, job: Annotated[JobView, job_to("cancel")], reason: Reason = ""
) -> JobView:
    """Asking twice is asking once."""
    await context.log.request_cancel(job, JobCancelRequested(principal=caller.name, reason=reason))
    return job


async def _why(context: AppContext, job_id: str) -> WhyAnswer:
    """The scheduler's answer, or what is known without it. Raises ProblemError (404, 410, 503)."""
    try:
        answer = await context.scheduler.why(job_id)
    except UnreachableError as error:
        view = await context.views.job_view(job_id)
        return WhyAnswer(job=view, reason="scheduler-unreachable", detail=str(error), cure="It waits in the log.")
    if answer.job is None:
        view = await context.views.job_view(job_id)
        if view.phase.is_terminal:
            return WhyAnswer(job=view, reason=view.reason or view.phase.value, detail=view.detail)
        return await _without_cluster(context, view)
    if waits(answer) and context.catalogue.grows:
        return await _with_scaling(context, answer)
    return answer


async def _without_cluster(context: AppContext, view: JobView) -> WhyAnswer:
    """Of a job that no scheduler knows: why it waits with the federation, if it does."""
    answer = WhyAnswer(job=view, reason="not-routed", detail="no cluster's scheduler has the job yet")
    try:
        found = await context.leaders.ask("federation", "assignment", AskAssignment(job_id=view.id), AssignmentView)
    except UnreachableError:
        return answer
    return without_cluster(answer, found)


async def _with_scaling(context: AppContext, answer: WhyAnswer) -> WhyAnswer:
    """Without the scaler, the scheduler's answer alone."""
    try:
        return with_scaling(answer, (await context.scaler.choices()).choices)
    except UnreachableError:
        return answer
