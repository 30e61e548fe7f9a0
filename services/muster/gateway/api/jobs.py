"""Routes of jobs: submit one or many, show, explain, cancel, hold, release, requeue and edit.

The scheduler answers these requests, except of cancellations, with facts of the job.
"""

import os
import re
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import AfterValidator, BeforeValidator

from muster.gateway import answers
from muster.gateway.api.dependencies import (
    Caller,
    Context,
    EveryClusterContext,
    Route,
    caller_of,
    context_for,
    context_of,
)
from muster.gateway.api.events import STREAM, after_of, job_stream
from muster.gateway.api.openapi import OF_BODIES, accepted, listing, parameter, read_by_handler, reference, refusals
from muster.gateway.api.parameters import (
    Count,
    Flag,
    IdempotencyKey,
    JobId,
    JsonBody,
    Reason,
    read_body,
    read_flag,
    read_here,
    read_job_id,
    refused,
)
from muster.gateway.authorise import refuse_unless_acting_for
from muster.gateway.context import AppContext
from muster.gateway.metrics import is_about
from muster.gateway.ports import JobFilter, JobRequest, StoredJob, UnreachableError
from muster.gateway.problems import ProblemError, as_json, conflict, invalid, too_large
from muster.gateway.submit import Submission, dry_run, refuse_priority, submit, submit_each
from muster.gateway.views import as_submitted, waits, with_scaling, without_cluster
from muster.schemas.base import JOBS_PER_BATCH_MAX
from muster.schemas.facts.job import JobCancelRequested
from muster.schemas.facts.job_requests import Ask, JobEditRequested, JobHoldRequested, JobPriorityRequested
from muster.schemas.job import JobChange, JobSpec, Phase, PriorityChange
from muster.schemas.members import AskAssignment, AssignmentView
from muster.schemas.queries import DryRunAnswer, WhyAnswer
from muster.schemas.views import FactView, JobView, SubmitAnswer

PAGE_MAX = 1_000
PAGE_DEFAULT = 100
END_NS = 2**63 - 1
"""Latest time of a filter, in nanoseconds since 1970."""
_CURSOR = re.compile(r"[0-9]{20}:[A-Z2-7]{26}")

router = APIRouter(route_class=Route, tags=["jobs"], responses=refusals(404))
_JOB_ID = parameter("job_id", "Id of the job", place="path")

action_router = APIRouter(tags=["jobs"], responses=refusals(403, 404, 409, 410))
_REQUESTED = "Requested; the current job"
_HOLDING = frozenset({Phase.PLACED, Phase.RUNNING, Phase.STOPPING})

FIRST_MAX = 1_000_000
"""Maximum number of a batch's first job; input files are not longer."""

batch_router = APIRouter(route_class=Route, tags=["jobs"])
_LINES = {"type": "string", "description": f"1 to {JOBS_PER_BATCH_MAX} lines of JSON, a JobSpec each"}


def _job_id(request: Request) -> str:
    return read_here(request.path_params["job_id"], read_job_id, field="job_id", default="")


def _cursor(text: str) -> str:
    if text and not _CURSOR.fullmatch(text):
        raise refused("not a cursor of this list", cure="Send `next_cursor` of the previous page.")
    return text


def _phase(given: object) -> Phase | None:
    text = str(given)
    try:
        return Phase(text) if text else None
    except ValueError:
        raise refused(f"{text[:40]!r} is not a phase", cure=f"Use one of {', '.join(Phase)}.") from None


@router.post(
    "/v1/jobs",
    status_code=201,
    summary="Submit a job",
    response_model=JobView,
    response_description="Accepted: the job is stored and will not be lost",
    responses=accepted(
        "Accepted before with the same key; or the answer to a dry run", JobView | DryRunAnswer, status=200
    )
    | refusals(*OF_BODIES, 403, 409),
    openapi_extra=read_by_handler(
        parameter(
            "Idempotency-Key",
            "The same key with the same body means the same job; by default a new key is generated",
            place="header",
        ),
        parameter("traceparent", "W3C trace context: the job's trace continues this one", place="header"),
        parameter("dry_run", "Return only what would happen (DryRunAnswer); nothing is stored", kind="boolean"),
        body={answers.JSON: {"schema": reference(JobSpec)}},
    ),
)
async def submit_job(request: Request) -> Response:
    """Check the job completely, then store it or refuse it."""
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
    response_description="A page; pass `next_cursor` as `cursor` for the next page; it is empty on the last",
)
async def list_jobs(
    context: EveryClusterContext,
    *,
    limit: Annotated[int, Query(description=f"Rows per page, at most {PAGE_MAX}"), Count(PAGE_MAX)] = PAGE_DEFAULT,
    cursor: Annotated[str, Query(description="`next_cursor` of the previous page"), AfterValidator(_cursor)] = "",
    team: Annotated[str, Query(description="Only jobs of this team")] = "",
    queue: Annotated[str, Query(description="Only jobs of this queue")] = "",
    phase: Annotated[Phase | None, Query(description="Only jobs in this phase"), BeforeValidator(_phase)] = None,
    live: Annotated[Flag, Query(description="Only jobs that have not ended")] = False,
    user: Annotated[str, Query(description="Only jobs that this principal submitted")] = "",
    ended: Annotated[Flag, Query(description="Only jobs that have ended, the last to end first")] = False,
    ended_from: Annotated[
        int, Query(description="With `ended`: ended at this time or later, in nanoseconds since 1970"), Count(END_NS)
    ] = 0,
    ended_before: Annotated[
        int, Query(description="With `ended`: ended before this time, in nanoseconds since 1970"), Count(END_NS)
    ] = 0,
) -> Response:
    """List jobs from the read model; while it is unavailable, there is no list."""
    if not ended and (ended_from or ended_before):
        field = "ended_from" if ended_from else "ended_before"
        raise invalid("only the list of ended jobs has it", field=field, cure="Send ended=true as well.")
    wanted = JobFilter(
        team=team,
        queue=queue,
        phase=phase,
        live_only=live,
        user=user,
        ended_only=ended,
        ended_from=ended_from,
        ended_before=ended_before,
    )
    page = await context.view.jobs(wanted, limit=limit, cursor=cursor)
    return answers.rows("jobs", page.rows, next_cursor=page.next_cursor)


@router.get(
    "/v1/jobs/{job_id}",
    summary="Show a job",
    response_model=JobView,
    response_description="The job",
    responses=refusals(410),
    openapi_extra=read_by_handler(_JOB_ID),
)
async def get_job(request: Request) -> Response:
    """Return a job; never 404 for a job that was accepted."""
    return answers.encoded(await context_of(request).views.job(_job_id(request)))


@router.get(
    "/v1/jobs/{job_id}/events",
    summary="The facts of a job",
    response_model=listing("facts", FactView),
    response_description="All kept facts, by time; with `follow`, new facts as they are stored, until the job ends",
    responses=STREAM,
    openapi_extra=read_by_handler(
        _JOB_ID,
        parameter("follow", "Keep the answer open (SSE) until the job ends", kind="boolean"),
        parameter("after", "With `follow`: start after this cursor (id of the last event)"),
        parameter("Last-Event-ID", "The same as `after`, as a browser sends it", place="header"),
    ),
)
async def job_events(request: Request) -> Response:
    """Return the facts of a job, or stream them."""
    context, job_id = context_of(request), _job_id(request)
    if read_here(request.query_params.get("follow"), read_flag, field="follow", default=False):
        await context.views.job(job_id)
        return job_stream(context, job_id, after=after_of(request))
    trail = await context.view.trail(job_id)
    if not trail:
        await context.views.job(job_id)
    return answers.rows("facts", trail)


@router.get("/v1/jobs/{job_id}/why", summary="Explain the state of a job", response_description="Reason and hint")
async def why(context: Context, job_id: JobId) -> WhyAnswer:
    """Explain a job's state from the scheduler, else from the read side, with what the scaler does for the job."""
    if context.sight.hides_jobs:
        await context.views.job(job_id)
    return context.sight.why(await _why(context, job_id), job_id)


def job_to(verb: str) -> object:
    """Return the dependency on the live job of the path, for a caller who acts for its team. It raises ProblemError:
    403 for other callers, 404, and 409 if the job has ended. verb: the action that is refused."""

    async def live_job(caller: Caller, context: Context, job_id: JobId) -> JobView:
        job = await context.views.job_view(job_id)
        refuse_unless_acting_for(caller, job.team, verb=verb)
        if job.phase.is_terminal:
            raise conflict(f"job {job.id} has ended: {job.phase.value}", field="job_id")
        return job

    return Depends(live_job)


@router.delete(
    "/v1/jobs/{job_id}",
    status_code=202,
    summary="Cancel a job",
    response_description="Requested; the current job",
    responses=refusals(403, 409),
)
async def cancel_job(
    caller: Caller, context: Context, job: Annotated[JobView, job_to("cancel")], reason: Reason = ""
) -> JobView:
    """Request the cancellation of a job; a repeated request has no further effect."""
    await context.log.request_cancel(job, JobCancelRequested(principal=caller.name, reason=reason))
    return job


async def _why(context: AppContext, job_id: str) -> WhyAnswer:
    """Return the scheduler's answer, or what is known without it. Raises ProblemError (404, 410, 503)."""
    try:
        answer = await context.scheduler.why(job_id)
    except UnreachableError as error:
        view = await context.views.job_view(job_id)
        return WhyAnswer(
            job=view,
            reason="scheduler-unreachable",
            detail=str(error),
            cure="The job waits in the log.",
        )
    if answer.job is None:
        view = await context.views.job_view(job_id)
        if view.phase.is_terminal:
            return WhyAnswer(job=view, reason=view.reason or view.phase.value, detail=view.detail)
        return await _without_cluster(context, view)
    if waits(answer) and context.catalogue.grows:
        return await _with_scaling(context, answer)
    return answer


async def _without_cluster(context: AppContext, view: JobView) -> WhyAnswer:
    """Explain why the federation has not assigned a job that no scheduler knows."""
    answer = WhyAnswer(job=view, reason="not-routed", detail="no scheduler of any cluster has the job yet")
    try:
        found = await context.leaders.ask("federation", "assignment", AskAssignment(job_id=view.id), AssignmentView)
    except UnreachableError:
        return answer
    return without_cluster(answer, found)


async def _with_scaling(context: AppContext, answer: WhyAnswer) -> WhyAnswer:
    """Add the scaler's decisions; if the scaler does not answer, return the scheduler's answer alone."""
    try:
        return with_scaling(answer, (await context.scaler.choices()).choices)
    except UnreachableError:
        return answer


@action_router.post(
    "/v1/jobs/{job_id}/hold", status_code=202, summary="Hold a queued job", response_description=_REQUESTED
)
async def hold_job(
    caller: Caller, context: Context, job: Annotated[JobView, job_to("hold")], key: IdempotencyKey, reason: Reason = ""
) -> JobView:
    """Hold a queued job: it is not placed, keeps its position and loses its reservation. 409 if it is placed."""
    if job.phase in _HOLDING:
        raise conflict(
            f"job {job.id} is {job.phase.value}: only a job that waits can be held",
            field="job_id",
            cure="Cancel it, or hold it when it waits again.",
        )
    payload = JobHoldRequested(principal=caller.name, reason=reason)
    await context.log.request_of_job(job, JobRequest(Ask.HOLD, payload), key=key)
    return job


@action_router.post(
    "/v1/jobs/{job_id}/release", status_code=202, summary="Release a held job", response_description=_REQUESTED
)
async def release_job(
    caller: Caller,
    context: Context,
    job: Annotated[JobView, job_to("release")],
    key: IdempotencyKey,
    reason: Reason = "",
) -> JobView:
    """Release a held job to its former position in the queue; a job that is not held does not change."""
    payload = JobHoldRequested(principal=caller.name, reason=reason)
    await context.log.request_of_job(job, JobRequest(Ask.RELEASE, payload), key=key)
    return job


@action_router.post(
    "/v1/jobs/{job_id}/requeue", status_code=202, summary="Requeue a job with pods", response_description=_REQUESTED
)
async def requeue_job(
    caller: Caller,
    context: Context,
    job: Annotated[JobView, job_to("requeue")],
    key: IdempotencyKey,
    reason: Reason = "",
) -> JobView:
    """Stop the attempt of a job, with its grace period, and queue the job again: neither a failure nor a preemption.

    409 unless the job is placed or running.
    """
    if job.phase not in (Phase.PLACED, Phase.RUNNING):
        raise conflict(
            f"job {job.id} is {job.phase.value}: only a job that is placed or running can be requeued",
            field="job_id",
            cure="Wait until it runs; a job that waits keeps its position in the queue.",
        )
    payload = JobHoldRequested(principal=caller.name, reason=reason)
    await context.log.request_of_job(job, JobRequest("requeue", payload), key=key)
    return job


@action_router.post(
    "/v1/jobs/{job_id}/priority",
    status_code=202,
    summary="Change the priority of a job",
    response_description=_REQUESTED,
    responses=refusals(*OF_BODIES),
)
async def prioritise_job(
    caller: Caller,
    change: Annotated[PriorityChange, Depends(JsonBody(PriorityChange))],
    context: Context,
    job: Annotated[JobView, job_to("prioritize jobs")],
    key: IdempotencyKey,
) -> JobView:
    """Change the priority of a job, from 0 to what the role and the queue allow.

    A queued job moves in its queue; for a running job the priority decides how early it is preempted.
    """
    await refuse_priority(context, caller, change.priority, queue=job.queue)
    payload = JobPriorityRequested(principal=caller.name, priority=change.priority, reason=change.reason)
    await context.log.request_of_job(job, JobRequest(Ask.PRIORITY, payload), key=key)
    return job


@action_router.patch(
    "/v1/jobs/{job_id}",
    status_code=202,
    summary="Edit a job",
    response_description=_REQUESTED,
    responses=refusals(*OF_BODIES),
)
async def edit_job(
    caller: Caller,
    change: Annotated[JobChange, Depends(JsonBody(JobChange))],
    context: Context,
    job: Annotated[JobView, job_to("edit jobs")],
    key: IdempotencyKey,
) -> JobView:
    """Change the priority of a job, and the run times of a job that waits, within the limits of its queue.

    409 if the run times of a placed job are to change; then no change is requested.
    """
    has_times = change.total_run_time_s is not None or change.min_slice_s is not None
    if not has_times and change.priority is None:
        raise invalid("nothing to change", field="body", cure="Send priority, total_run_time_s or min_slice_s.")
    if has_times and job.phase in _HOLDING:
        raise conflict(
            f"job {job.id} is {job.phase.value}: only a job that waits can get other run times",
            field="total_run_time_s" if change.total_run_time_s is not None else "min_slice_s",
            cure="Requeue or cancel it.",
        )
    if change.priority is not None:
        await refuse_priority(context, caller, change.priority, queue=job.queue)
        asked = JobPriorityRequested(principal=caller.name, priority=change.priority, reason=change.reason)
        await context.log.request_of_job(job, JobRequest(Ask.PRIORITY, asked), key=key)
    if has_times:
        times = JobEditRequested(
            principal=caller.name,
            reason=change.reason,
            total_run_time_s=change.total_run_time_s,
            min_slice_s=change.min_slice_s,
        )
        await context.log.request_of_job(job, JobRequest("edit", times), key=key)
    return job


@batch_router.post(
    "/v1/jobs/batch",
    summary="Submit many jobs",
    response_model=listing("answers", SubmitAnswer),
    response_description="The outcome of each job, in the order of the request",
    responses=refusals(413),
    openapi_extra=read_by_handler(
        parameter("Idempotency-Key", "KEY: the n-th job has the key KEY-n; generated if absent", place="header"),
        parameter("traceparent", "W3C trace context: every job's trace continues this one", place="header"),
        parameter("first", "Number of the first job, if a list is sent in several requests", kind="integer"),
        body={"application/x-ndjson": {"schema": _LINES}},
    ),
)
async def submit_batch(request: Request) -> Response:
    """Submit each line as a job of its own: a refused job does not affect the others."""
    caller = caller_of(request)
    context = context_for(caller, request)
    started_s = context.time.monotonic_s()
    first = read_here(request.query_params.get("first"), Count(FIRST_MAX), field="first", default=1)
    key = request.headers.get("idempotency-key", os.urandom(16).hex())
    traceparent = request.headers.get("traceparent", "")
    lines = _lines(await read_body(request))
    context.limits.writes(caller, len(lines) - 1, now_s=started_s)  # the request itself was counted as one write
    sent = [Submission(line, f"{key}-{number}", traceparent) for number, line in enumerate(lines, first)]
    outcomes = await submit_each(context, caller, sent)
    took_s = context.time.monotonic_s() - started_s
    return answers.rows("answers", [_answer(context, outcome, took_s) for outcome in outcomes])


def _lines(body: bytes) -> list[bytes]:
    """Return the lines of the body, one job each, without blank lines."""
    lines = [line for line in body.splitlines() if line.strip()]
    if not lines:
        raise invalid("the body has no job", field="body", cure="Send one line of JSON for each job.")
    if len(lines) > JOBS_PER_BATCH_MAX:
        raise too_large(
            f"{len(lines)} jobs in the body; a batch has at most {JOBS_PER_BATCH_MAX}",
            field="body",
            cure="Send several batches; set `first` in all but the first.",
        )
    return lines


def _answer(context: AppContext, outcome: StoredJob | ProblemError, took_s: float) -> bytes:
    """Encode one outcome as a `SubmitAnswer`, and count it like a request of its own."""
    if isinstance(outcome, ProblemError):
        context.metrics.refused.labels(str(outcome.problem.status)).inc()
        return b'{"status":%d,"problem":%s}' % (outcome.problem.status, as_json(outcome.problem))
    context.metrics.submit_s.observe(took_s, context.metrics.exemplar(outcome.job.trace, took_s))
    status = 201 if outcome.is_new else 200
    return b'{"status":%d,"job":%s}' % (status, as_submitted(outcome).model_dump_json().encode())
