"""Accept jobs. This is the hot path: all checks come before the job is stored."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus

from muster.gateway import accept
from muster.gateway.accept import Catalogue, while_it_may_grow
from muster.gateway.authorise import Principal, refuse_priority_above_role, refuse_unless_acting_for
from muster.gateway.context import AppContext
from muster.gateway.ports import NotStoredError, StoredJob, UnreachableError
from muster.gateway.problems import ProblemError, unavailable
from muster.schemas.facts.job import JobSubmitted
from muster.schemas.job import JobSpec
from muster.schemas.queries import DryRunAnswer

LARGE_BODY_BYTES = 256 * 1024  # below it a specification cannot make a fact that is too large
AT_ONCE_MAX = 50  # jobs of a batch that are checked together, in about 10 ms, and then stored together


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission as the client sent it."""

    body: bytes
    key: str
    traceparent: str


async def submit(context: AppContext, principal: Principal, sent: Submission) -> StoredJob:
    """Store the job, or return the job that the same request stored before. Raises ProblemError.

    `submitted_at` of a new job is this gateway's clock before the write: asking for the broker's would double the cost.
    """
    spec = accept.parse_spec(sent.body)
    refuse_unless_acting_for(principal, spec.team, verb="submit")
    job = accept.make_job(spec, principal=principal.name, key=sent.key, traceparent=sent.traceparent)
    accept.refuse_too_large(job)
    if len(sent.body) > LARGE_BODY_BYTES:
        accept.refuse_large_body(JobSubmitted(job=job))
    await refuse_what_may_not_run(context, principal, spec)
    try:
        context.limits.job(principal, spec.team, body_bytes=len(sent.body), now_s=context.time.monotonic_s())
    except ProblemError:
        known = await context.log.submitted(job.id)
        if known is None:
            raise
        accept.refuse_other_body(known.job, job)
        return known  # a repeated submission, so it adds nothing to the log
    before = context.time.wall()
    try:
        stored = await context.log.submit(job)
    except NotStoredError as error:
        raise unavailable(str(error)) from error
    if stored.is_new:
        return replace(stored, submitted_at=before)
    context.limits.give_back(principal, spec.team, body_bytes=len(sent.body))
    accept.refuse_other_body(stored.job, job)
    return stored


async def submit_each(
    context: AppContext, principal: Principal, sent: Sequence[Submission]
) -> list[StoredJob | ProblemError]:
    """Submit each job and return its outcome, in order; a refusal does not affect the other jobs.

    If the log cannot store a job now, the jobs of later groups are not tried: each would wait for its timeout, and
    the client would be gone by then.
    """
    outcomes: list[StoredJob | ProblemError] = []
    for first in range(0, len(sent), AT_ONCE_MAX):
        together = sent[first : first + AT_ONCE_MAX]
        found = await asyncio.gather(*(_submitted(context, principal, one) for one in together))
        outcomes += found
        silence = next((one for one in found if _is_later(one)), None)
        if silence is not None:
            outcomes += [silence] * (len(sent) - len(outcomes))
            break
    return outcomes


def _is_later(outcome: StoredJob | ProblemError) -> bool:
    """Return whether the same job may be stored later."""
    return isinstance(outcome, ProblemError) and outcome.problem.status == HTTPStatus.SERVICE_UNAVAILABLE


async def _submitted(context: AppContext, principal: Principal, sent: Submission) -> StoredJob | ProblemError:
    try:
        return await submit(context, principal, sent)
    except ProblemError as refusal:
        return refusal
    except UnreachableError as error:
        return unavailable(str(error))


async def dry_run(context: AppContext, principal: Principal, body: bytes) -> DryRunAnswer:
    """Return what would happen to the job; a refusal is an answer. Raises ProblemError if the body is not a job."""
    spec = accept.parse_spec(body)
    refuse_unless_acting_for(principal, spec.team, verb="submit")
    try:
        accept.refuse_too_large(accept.make_job(spec, principal=principal.name, key="dry-run", traceparent=""))
        await refuse_what_may_not_run(context, principal, spec)
    except ProblemError as refusal:
        problem = refusal.problem
        if problem.status >= 500:
            raise
        return DryRunAnswer(
            refused=True, field=problem.field, reason=problem.title.lower(), detail=problem.detail, cure=problem.cure
        )
    answer = await context.scheduler.dry_run(spec)
    return while_it_may_grow(answer) if context.catalogue.grows else answer


async def refuse_what_may_not_run(context: AppContext, principal: Principal, spec: JobSpec) -> None:
    """Refuse a job that can never run, or that may not run in this queue or with this priority.

    Raises ProblemError (403, 422), or 503 if this cannot be decided now. The catalogue is read again before a
    refusal, so that a queue that was just created or changed, or a node that just joined, counts.
    """
    accept.refuse_unknown_suite(spec, context.preflight)
    refuse_priority_above_role(principal, spec.priority, most=context.access.of(principal.role).priority_max)

    def check(catalogue: Catalogue) -> None:
        accept.refuse_unknown_queue(spec, catalogue)
        accept.refuse_foreign_queue(spec, principal, catalogue)
        accept.refuse_priority(spec.priority, spec.queue_name, catalogue)
        accept.refuse_impossible(spec, catalogue)

    await _checked(context, check)


async def refuse_priority(context: AppContext, principal: Principal, priority: int, *, queue: str) -> None:
    """Refuse a new priority for a job of this queue as at submission. Raises ProblemError (403, 422, 503)."""
    refuse_priority_above_role(principal, priority, most=context.access.of(principal.role).priority_max)
    await _checked(context, lambda catalogue: accept.refuse_priority(priority, queue, catalogue))


async def _checked(context: AppContext, check: Callable[[Catalogue], None]) -> None:
    """Check against the catalogue in memory; before a refusal, check again with a new one."""
    known = context.catalogue.now()
    if known is not None:
        try:
            check(known)
        except ProblemError:
            known = None
    if known is None:
        check(await context.catalogue.newer())
