"""Answering what an object of a cluster asks: the same door, and the same checks, as a person's request."""

from dataclasses import dataclass
from enum import StrEnum

from muster.core.fact import Fact
from muster.gateway import accept
from muster.gateway.authority import Authority
from muster.gateway.context import AppContext
from muster.gateway.ports import JobRef, NotStoredError, UnreachableError
from muster.gateway.problems import ProblemError
from muster.gateway.submit import refuse_what_may_not_run
from muster.schemas import ids
from muster.schemas.base import TEXT_CHARS_MAX
from muster.schemas.facts.job import JobCancelRequested, JobSubmitted
from muster.schemas.facts.workload import JobRefused, WorkloadCancelRequested, WorkloadSubmitRequested

NO_TEAM = "-"
"""What wishes of namespaces that act for no team are counted under: it is no team's name."""

SERVER_ERRORS = 500
"""From this status on a refusal is about the gateway and not about the job: it is asked again."""


class Answer(StrEnum):
    """What became of an object's wish. AGAIN: nobody can tell now. FOREIGN: it names what is not its cluster's."""

    SUBMITTED = "submitted"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    IGNORED = "ignored"
    AGAIN = "again"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Answered:
    """The outcome, and why where it is not what was asked."""

    answer: Answer
    detail: str = ""


async def answer(context: AppContext, authority: Authority, asked: Fact, *, is_repeated: bool) -> Answered:
    """Answer one fact of a workload in FED. authority: of the log that it stands in.

    is_repeated: it was offered before, so an answer may stand already. What names another cluster's object or job is
    dropped: no honest agent asks so, and a fact in FED about it would be one about somebody else's job.
    """
    try:
        match asked.payload:
            case WorkloadSubmitRequested() as wish:
                if not authority.speaks_for(asked, wish.origin):
                    claimed = f"{wish.origin.title} of {wish.origin.cluster}, uid {wish.origin.uid}"
                    return Answered(Answer.FOREIGN, f"it asks for {claimed}")
                return await _submit(context, authority, asked, wish, is_repeated=is_repeated)
            case WorkloadCancelRequested() as wish:
                return await _cancel(context, authority, asked, wish)
            case _:
                return Answered(Answer.IGNORED, f"{asked.name} asks for nothing")
    except (NotStoredError, UnreachableError) as error:
        return Answered(Answer.AGAIN, str(error))
    except ProblemError as refusal:
        return Answered(Answer.AGAIN, refusal.problem.detail)


async def _cancel(context: AppContext, authority: Authority, asked: Fact, wish: WorkloadCancelRequested) -> Answered:
    """Store the cancellation of the object's own job. Raises NotStoredError, UnreachableError.

    Almost always the id says whose job it is. One that was accepted before its namespace acted for another team, or
    before ids named clusters, is looked up.
    """
    principal = authority.principal_of(asked, wish)
    if principal is None:
        stored = await context.log.submitted(wish.job_id)
        if stored is None or not authority.is_job_of(asked, stored.job):
            return Answered(Answer.FOREIGN, f"it cancels job {wish.job_id}, which does not stand for it")
        principal = stored.job.principal
    wanted = JobCancelRequested(principal=principal, reason=wish.reason)
    await context.log.request_cancel(_ref(wish.job_id), wanted)
    return Answered(Answer.CANCELLED)


async def _submit(
    context: AppContext, authority: Authority, asked: Fact, wish: WorkloadSubmitRequested, *, is_repeated: bool
) -> Answered:
    """Store the job, or its refusal. Raises NotStoredError, UnreachableError, and ProblemError for 5xx.

    A wish is refused once and for ever, so one that comes again after its refusal was stored, whose acknowledgement got
    lost, must not be judged anew: the queue may have been made meanwhile, and its agent asks again by another wish.
    Whatever the wish says, the answer is about the job that the object can have, and for its own cluster. Above the
    limit of its team (429) it waits in its cluster's log, so that objects cannot fill FED.
    """
    own = _ref(authority.job_id_of(wish.origin))
    if is_repeated and await context.log.is_refused(own.id, asked.id):
        return Answered(Answer.REFUSED)
    acting = authority.acting(wish.origin)
    body_bytes = len(wish.spec.model_dump_json(exclude_defaults=True))
    team = authority.teams.get(wish.origin.namespace, NO_TEAM)
    context.limits.job(acting, team, body_bytes=body_bytes, now_s=context.time.monotonic_s())
    try:
        authority.refuse_other_team(wish)
        job = accept.make_job(
            wish.spec,
            principal=acting.name,
            key=ids.origin_key(authority.cluster, wish.origin.uid),
            traceparent="",
        ).model_copy(update={"origin": wish.origin})
        accept.refuse_other_id(job, wish.job_id)
        accept.refuse_too_large(job)
        accept.refuse_large_body(JobSubmitted(job=job))
        await refuse_what_may_not_run(context, acting, wish.spec)
        stored = await context.log.submit(job)
        if not stored.is_new:
            context.limits.give_back(acting, team, body_bytes=body_bytes)
            accept.refuse_other_body(stored.job, job)
    except ProblemError as refusal:
        problem = refusal.problem
        if problem.status >= SERVER_ERRORS:
            raise
        context.metrics.refused.labels(str(problem.status)).inc()
        refused = JobRefused(
            workload=wish.origin.uid,
            cluster=authority.cluster,
            reason=(problem.detail or problem.title)[:TEXT_CHARS_MAX],
            field=problem.field,
            cure=problem.cure[:TEXT_CHARS_MAX],
            wish=asked.id,
        )
        await context.log.refuse(own, refused)
        return Answered(Answer.REFUSED, problem.detail)
    return Answered(Answer.SUBMITTED)


def _ref(job_id: str) -> JobRef:
    """With the trace that the job of an object has: its own. One that a wish names may be another job's."""
    return JobRef(job_id, ids.traceparent(ids.trace_id(job_id), ids.span_id(job_id)))
