"""Answering what an object of a cluster asks: the same door, and the same checks, as a person's request."""

from dataclasses import dataclass
from enum import StrEnum

from muster.core.fact import Fact
from muster.gateway import accept
from muster.gateway.house import REASON_CHARS_MAX, House
from muster.gateway.ports import JobRef, NotStoredError, UnreachableError
from muster.gateway.problems import ProblemError
from muster.gateway.submit import refuse_what_can_never_run
from muster.schemas import ids
from muster.schemas.facts.job import JobCancelRequested, JobSubmitted
from muster.schemas.facts.workload import JobRefused, WorkloadCancelRequested, WorkloadSubmitRequested

SERVER_ERRORS = 500
"""From this status on a refusal speaks of the house and not of the job: it is asked again."""


class Answer(StrEnum):
    """What became of an object's wish. AGAIN: nobody can tell now."""

    SUBMITTED = "submitted"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    IGNORED = "ignored"
    AGAIN = "again"


@dataclass(frozen=True, slots=True)
class Answered:
    """The outcome, and why where it is not what was asked."""

    answer: Answer
    detail: str = ""


async def answer(house: House, asked: Fact, *, is_repeated: bool) -> Answered:
    """Answer one fact of a workload in FED. is_repeated: it was offered before, so an answer may stand already."""
    try:
        match asked.payload:
            case WorkloadSubmitRequested() as wish:
                return await _submit(house, asked, wish, is_repeated=is_repeated)
            case WorkloadCancelRequested() as wish:
                wanted = JobCancelRequested(principal=wish.principal, reason=wish.reason)
                await house.log.request_cancel(JobRef(wish.job_id, asked.trace), wanted)
                return Answered(Answer.CANCELLED)
            case _:
                return Answered(Answer.IGNORED, f"{asked.name} asks for nothing")
    except (NotStoredError, UnreachableError) as error:
        return Answered(Answer.AGAIN, str(error))
    except ProblemError as refusal:
        return Answered(Answer.AGAIN, refusal.problem.detail)


async def _submit(house: House, asked: Fact, wish: WorkloadSubmitRequested, *, is_repeated: bool) -> Answered:
    """Store the job, or its refusal. Raises NotStoredError, UnreachableError, and ProblemError for 5xx.

    A wish is refused once and for ever, so one that comes again after its refusal was stored, whose acknowledgement got
    lost, must not be judged anew: the queue may have been made meanwhile, and its agent asks again by another wish.
    """
    if is_repeated and await house.log.is_refused(wish.job_id, asked.id):
        return Answered(Answer.REFUSED)
    try:
        job = accept.make_job(
            wish.spec, principal=wish.principal, key=ids.origin_key(wish.origin.uid), traceparent=wish.trace
        ).model_copy(update={"origin": wish.origin})
        accept.refuse_other_id(job, wish.job_id)
        accept.refuse_too_large(job)
        accept.refuse_large_body(JobSubmitted(job=job))
        await refuse_what_can_never_run(house, wish.spec)
        stored = await house.log.submit(job)
        if not stored.is_new:
            accept.refuse_other_body(stored.job, job)
    except ProblemError as refusal:
        problem = refusal.problem
        if problem.status >= SERVER_ERRORS:
            raise
        house.metrics.refused.labels(str(problem.status)).inc()
        refused = JobRefused(
            workload=wish.origin.uid,
            cluster=wish.origin.cluster,
            reason=(problem.detail or problem.title)[:REASON_CHARS_MAX],
            field=problem.field,
            cure=problem.cure[:REASON_CHARS_MAX],
            wish=asked.id,
        )
        await house.log.refuse(JobRef(wish.job_id, asked.trace), refused)
        return Answered(Answer.REFUSED, problem.detail)
    return Answered(Answer.SUBMITTED)
