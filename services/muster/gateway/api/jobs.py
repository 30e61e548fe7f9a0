"""Jobs: submit, look, ask why, cancel."""

import os
import re

from fastapi import APIRouter, Request, Response

from muster.gateway.api import answers, sse
from muster.gateway.api.describe import ONLY_CLUSTER, describe, header, list_of, path, query, reference
from muster.gateway.authorise import refuse_unless_acting_for
from muster.gateway.context import (
    AppContext,
    body_of,
    context_of,
    count_of,
    flag_of,
    job_id_of,
    principal_of,
    reason_of,
)
from muster.gateway.explaining import waits, with_scaling, without_cluster
from muster.gateway.metrics import is_about
from muster.gateway.ports import JobFilter, UnreachableError
from muster.gateway.problems import ProblemError, conflict, invalid
from muster.gateway.submit import Submission, dry_run, submit
from muster.gateway.views import as_submitted
from muster.schemas.facts.job import JobCancelRequested
from muster.schemas.job import JobSpec, Phase
from muster.schemas.members import AskAssignment, AssignmentView
from muster.schemas.queries import DryRunAnswer, WhyAnswer
from muster.schemas.views import FactView, JobView

PAGE_MAX = 1_000
PAGE_DEFAULT = 100
CURSOR = re.compile(r"[0-9]{20}:[A-Z2-7]{26}")

router = APIRouter(tags=["jobs"])
_JOB_ID = path("job_id", "Id of the job")


@router.post(
    "/v1/jobs",
    summary="Submit a job",
    **describe(
        {
            200: (
                "Accepted before, under the same key; or the answer to a dry run",
                {"anyOf": [reference(JobView), reference(DryRunAnswer)]},
            ),
            201: ("Accepted: from here on the job is never lost", reference(JobView)),
        },
        refusals=(400, 401, 403, 409, 413, 422, 503),
        parameters=(
            header("Idempotency-Key", "The same key with the same body is the same job; without one a key is made"),
            header("traceparent", "W3C trace context: the job's trace continues this one"),
            query("dry_run", "Only say what would happen (DryRunAnswer)", kind="boolean"),
        ),
        body=JobSpec,
    ),
)
async def submit_job(request: Request) -> Response:
    """Everything that can be checked is checked first; then the job is stored, or it is refused."""
    principal, context = principal_of(request), context_of(request)
    started_s = context.time.monotonic_s()
    body = await body_of(request)
    if request.scope["query_string"] and flag_of(request, "dry_run"):
        return answers.model(context.sight.dry_run(await dry_run(context, principal, body)))
    headers = request.headers
    key = headers.get("idempotency-key", os.urandom(16).hex())
    try:
        stored = await submit(context, principal, Submission(body, key, headers.get("traceparent", "")))
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
    **describe(
        {200: ("A page; pass `next_cursor` as `cursor` for the next, empty at the end", list_of("jobs", JobView))},
        refusals=(401, 404, 422, 503),
        parameters=(
            query("team", "Only this team's"),
            query("queue", "Only of this queue"),
            query("phase", "Only in this phase"),
            query("live", "Only those that have not ended", kind="boolean"),
            query("limit", f"Rows of a page, at most {PAGE_MAX}", kind="integer"),
            query("cursor", "Where to go on"),
            ONLY_CLUSTER,
        ),
    ),
)
async def list_jobs(request: Request) -> Response:
    """Reads the read model only: without it there is no list."""
    principal_of(request)
    params = request.query_params
    limit = count_of(request, name="limit", default=PAGE_DEFAULT, most=PAGE_MAX)
    cursor = params.get("cursor", "")
    if cursor and not CURSOR.fullmatch(cursor):
        raise invalid("no cursor of this list", field="cursor", cure="Send `next_cursor` of the page before.")
    wanted = JobFilter(
        team=params.get("team", ""),
        queue=params.get("queue", ""),
        phase=_phase(request),
        live_only=flag_of(request, "live"),
    )
    page = await context_of(request).view.jobs(wanted, limit=limit, cursor=cursor)
    return answers.rows("jobs", page.rows, next_cursor=page.next_cursor)


@router.get(
    "/v1/jobs/{job_id}",
    summary="Look at a job",
    **describe({200: ("The job", reference(JobView))}, refusals=(401, 404, 410, 422, 503), parameters=(_JOB_ID,)),
)
async def get_job(request: Request) -> Response:
    """Never 404 for a job that was accepted."""
    principal_of(request)
    return answers.encoded(await context_of(request).views.job(job_id_of(request)))


@router.get(
    "/v1/jobs/{job_id}/events",
    summary="The facts of a job",
    **describe(
        {
            200: (
                "All facts that are kept, by time; with `follow` as they come, until the job ends",
                list_of("facts", FactView),
            )
        },
        refusals=(401, 404, 422, 503),
        parameters=(
            _JOB_ID,
            query("follow", "Keep the answer open (SSE) until the job ends", kind="boolean"),
            query("after", "With `follow`: leave out what this cursor covers (id of the last event)"),
            header("Last-Event-ID", "The same, as a browser sends it"),
        ),
        stream=True,
    ),
)
async def job_events(request: Request) -> Response:
    """What happened to it."""
    principal_of(request)
    context = context_of(request)
    job_id = job_id_of(request)
    if flag_of(request, "follow"):
        await context.views.job(job_id)
        return sse.job_stream(request, context, job_id)
    trail = await context.view.trail(job_id)
    if not trail:
        await context.views.job(job_id)
    return answers.rows("facts", trail)


@router.get(
    "/v1/jobs/{job_id}/why",
    summary="Why a job is where it is",
    **describe(
        {200: ("Position, reason, cure", reference(WhyAnswer))}, refusals=(401, 404, 422, 503), parameters=(_JOB_ID,)
    ),
)
async def why(request: Request) -> Response:
    """Asks the scheduler; what it does not know is told from the read side, what is done for the job by the scaler."""
    principal_of(request)
    context = context_of(request)
    job_id = job_id_of(request)
    if context.sight.hides_jobs:
        await context.views.job(job_id)
    answer = await _why(context, job_id)
    return answers.model(context.sight.why(answer, job_id))


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


@router.delete(
    "/v1/jobs/{job_id}",
    summary="Cancel a job",
    **describe(
        {202: ("Requested; the job as it is now", reference(JobView))},
        refusals=(401, 403, 404, 409, 422, 503),
        parameters=(_JOB_ID, query("reason", "Why, for the record")),
    ),
)
async def cancel_job(request: Request) -> Response:
    """Asking twice is asking once."""
    principal = principal_of(request)
    context = context_of(request)
    job_id = job_id_of(request)
    reason = reason_of(request)
    job = await context.views.job_view(job_id)
    refuse_unless_acting_for(principal, job.team, verb="cancel")
    if job.phase.is_terminal:
        raise conflict(f"job {job_id} has ended: {job.phase.value}", field="job_id")
    await context.log.request_cancel(job, JobCancelRequested(principal=principal.name, reason=reason))
    return answers.model(job, status=202)


def _phase(request: Request) -> Phase | None:
    text = request.query_params.get("phase", "")
    if not text:
        return None
    try:
        return Phase(text)
    except ValueError as error:
        known = ", ".join(Phase)
        raise invalid(f"{text[:40]!r} is no phase", field="phase", cure=f"Use one of {known}.") from error
