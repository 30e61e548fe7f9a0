"""Many jobs in one request: a line each, and an answer for each."""

import os

from fastapi import APIRouter, Request, Response

from muster.gateway.api import answers
from muster.gateway.api.bodies import read_body
from muster.gateway.api.dependencies import caller_of, context_for
from muster.gateway.api.openapi import listing, parameter, read_by_handler, refusals
from muster.gateway.api.parameters import Count, read_here
from muster.gateway.context import AppContext
from muster.gateway.ports import StoredJob
from muster.gateway.problems import ProblemError, as_json, invalid, too_large
from muster.gateway.submit import Submission, submit_each
from muster.gateway.views import as_submitted
from muster.schemas.base import JOBS_PER_BATCH_MAX
from muster.schemas.views import SubmitAnswer

FIRST_MAX = 1_000_000
"""Number of a batch's first job: files are not longer."""

router = APIRouter(tags=["jobs"])
_LINES = {"type": "string", "description": f"1 to {JOBS_PER_BATCH_MAX} lines of JSON, a JobSpec each"}


@router.post(
    "/v1/jobs/batch",
    summary="Submit many jobs",
    response_model=listing("answers", SubmitAnswer),
    response_description="What became of each, in their order",
    responses=refusals(413),
    openapi_extra=read_by_handler(
        parameter("Idempotency-Key", "KEY: the n-th job has the key KEY-n; without one a key is made", place="header"),
        parameter("traceparent", "W3C trace context: every job's trace continues this one", place="header"),
        parameter("first", "Number of the first job, where a list is sent in several requests", kind="integer"),
        body={"application/x-ndjson": {"schema": _LINES}},
    ),
)
async def submit_batch(request: Request) -> Response:
    """Each job as if it had come alone: one that is refused keeps no other from being accepted."""
    caller = caller_of(request)
    context = context_for(caller, request)
    started_s = context.time.monotonic_s()
    first = read_here(request.query_params.get("first"), Count(FIRST_MAX), field="first", default=1)
    key = request.headers.get("idempotency-key", os.urandom(16).hex())
    traceparent = request.headers.get("traceparent", "")
    lines = _lines(await read_body(request))
    context.limits.writes(caller, len(lines) - 1, now_s=started_s)  # the request itself was counted as one
    sent = [Submission(line, f"{key}-{number}", traceparent) for number, line in enumerate(lines, first)]
    outcomes = await submit_each(context, caller, sent)
    took_s = context.time.monotonic_s() - started_s
    return answers.rows("answers", [_answer(context, outcome, took_s) for outcome in outcomes])


def _lines(body: bytes) -> list[bytes]:
    """A job each; what separates them, and an end of line after the last, count for nothing."""
    lines = [line for line in body.splitlines() if line.strip()]
    if not lines:
        raise invalid("no job in it", field="body", cure="Send a line of JSON for each job.")
    if len(lines) > JOBS_PER_BATCH_MAX:
        raise too_large(
            f"{len(lines)} jobs; a batch has at most {JOBS_PER_BATCH_MAX}",
            field="body",
            cure="Send several, with `first` for those after the first.",
        )
    return lines


def _answer(context: AppContext, outcome: StoredJob | ProblemError, took_s: float) -> bytes:
    """See `SubmitAnswer`. Counted as a request of its own would be."""
    if isinstance(outcome, ProblemError):
        context.metrics.refused.labels(str(outcome.problem.status)).inc()
        return b'{"status":%d,"problem":%s}' % (outcome.problem.status, as_json(outcome.problem))
    context.metrics.submit_s.observe(took_s, context.metrics.exemplar(outcome.job.trace, took_s))
    status = 201 if outcome.is_new else 200
    return b'{"status":%d,"job":%s}' % (status, as_submitted(outcome).model_dump_json().encode())
