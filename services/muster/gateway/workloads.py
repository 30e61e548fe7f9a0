"""Answer requests of a cluster's objects, read from its log with one durable consumer that all gateways share.

A holder of a cluster's agent credential can write any request into its log. So the claims of a request do not count:
the cluster is the log's, the object is the subject, and the team is the one that the administrator configured for the
namespace. The checks are those of a user's request.

Each request is acknowledged after its answer is stored in FED. A request that cannot be answered now is redelivered,
so nothing is lost while FED is full or the queues are unknown. A request that is answered twice has one effect: job
ids are derived from the objects.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.client import JetStreamContext

from muster.bus import jsapi
from muster.bus.decode import Decoder, position
from muster.bus.logs import LineLimiter
from muster.bus.names import WORKLOADS_CONSUMER
from muster.bus.ports import ApiError, LogError
from muster.bus.settings import Settings
from muster.core.fact import Fact
from muster.core.instant import NS_PER_S
from muster.gateway import accept
from muster.gateway.authorise import Principal
from muster.gateway.background import end_if_cancelled
from muster.gateway.context import AppContext
from muster.gateway.declaration import DECLARATION
from muster.gateway.ports import JobRef, NotStoredError, UnreachableError
from muster.gateway.problems import ProblemError, invalid
from muster.gateway.submit import refuse_what_may_not_run
from muster.schemas import ids
from muster.schemas.access import Role
from muster.schemas.base import TEXT_CHARS_MAX
from muster.schemas.facts.job import JobCancelRequested, JobSubmitted
from muster.schemas.facts.workload import JobRefused, WorkloadCancelRequested, WorkloadSubmitRequested
from muster.schemas.job import Job, WorkloadRef
from muster.schemas.subjects import LogName, fact_subject

PRINCIPAL_PREFIX = ids.origin_principal("")

NO_TEAM = "-"
"""Rate-limit key of requests of namespaces without a team; it is not a valid team name."""

SERVER_ERRORS = 500
"""From this status on, a refusal is about the gateway and not about the job: the request is retried."""

CONSUMER = WORKLOADS_CONSUMER
WORKERS = 8
"""Number of requests that one gateway answers at a time."""
UNDER_WAY_MAX = 64
"""Number of requests that all gateways together answer at a time."""
ANSWER_S_MAX = 30.0
"""Time after which the broker redelivers a request, in seconds: longer than an append with all its retries."""
IDLE_FETCH_S = 5.0
PAUSE_S_MIN, PAUSE_S_MAX = 0.5, 10.0
"""Delay before a request is redelivered, and between attempts to subscribe, in seconds; it doubles each time."""
FOREIGN_TOLD_PER_S = 1
"""Log lines per second about requests that name objects of another cluster; all such requests are counted."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Authority:
    """The permissions of one cluster's objects."""

    cluster: str
    teams: Mapping[str, str] = field(default_factory=dict)
    """By namespace, the team that its objects act for."""
    setting: str = "kubernetes.teams"
    """The setting that holds `teams`, for refusals."""

    def speaks_for(self, asked: Fact, origin: WorkloadRef) -> bool:
        """Return whether the origin that a request names is its subject, in this cluster."""
        return origin.cluster == self.cluster and origin.uid == asked.subject_id

    def job_id_of(self, origin: WorkloadRef) -> str:
        """Return the id of the object's job. For a namespace without a team, the id serves only for the refusal."""
        return self._job_id(origin.namespace, origin.uid)

    def acting(self, origin: WorkloadRef) -> Principal:
        """Return the object's principal: users who may create objects in a team's namespace may submit for the team."""
        team = self.teams.get(origin.namespace)
        return Principal(ids.origin_principal(origin.namespace), Role.SUBMITTER, frozenset(filter(None, (team,))))

    def refuse_other_team(self, request: WorkloadSubmitRequested) -> None:
        """Raise ProblemError (422) unless the object's namespace acts for the team of the request."""
        namespace, team = request.origin.namespace, self.teams.get(request.origin.namespace)
        if team is None:
            raise invalid(
                f"namespace {namespace} of cluster {self.cluster} has no team",
                field="metadata.namespace",
                cure=f"Configure its team in {self.setting}.",
            )
        if team != request.spec.team:
            raise invalid(
                f"namespace {namespace} of cluster {self.cluster} acts for team {team} by {self.setting}, and for "
                f"{request.spec.team} by kubernetes.teams in the settings of the cluster's agent",
                field="metadata.namespace",
                cure="Configure the same team in both settings.",
            )

    def principal_of(self, asked: Fact, request: WorkloadCancelRequested) -> str | None:
        """Return the principal of a cancellation if the job id belongs to this object; else None.

        Cluster and object are part of the hash that makes the id, so no other object's job has it.
        """
        namespace = request.principal.removeprefix(PRINCIPAL_PREFIX)
        is_own = namespace in self.teams and self._job_id(namespace, asked.subject_id) == request.job_id
        return ids.origin_principal(namespace) if is_own else None

    def is_job_of(self, asked: Fact, job: Job) -> bool:
        """Return whether the submitted job belongs to the object of a request."""
        return job.origin is not None and self.speaks_for(asked, job.origin)

    def _job_id(self, namespace: str, uid: str) -> str:
        team = self.teams.get(namespace, "")
        return ids.origin_job_id(team=team, cluster=self.cluster, namespace=namespace, uid=uid)


def authority_of(settings: Settings, cluster: str) -> Authority:
    """Return the authority of one cluster: in a center from its own settings, never from the cell's."""
    if settings.role == "centre":
        member = next(member for member in settings.federation.clusters if member.name == cluster)
        return Authority(cluster, member.teams, f"teams of {cluster} in federation.clusters of the center")
    return Authority(cluster, settings.kubernetes.teams if settings.kubernetes is not None else {})


class Answer(StrEnum):
    """The outcome of an object's request."""

    SUBMITTED = "submitted"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    IGNORED = "ignored"
    AGAIN = "again"
    """The request cannot be answered now."""
    FOREIGN = "foreign"
    """The request names an object or a job of another cluster."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The outcome, and its reason if the request was not fulfilled."""

    answer: Answer
    detail: str = ""


async def answer(context: AppContext, authority: Authority, asked: Fact, *, is_repeated: bool) -> Answered:
    """Answer a workload request. authority: of the log that holds the request. is_repeated: the request was
    delivered before, so an answer may exist already. A request that names another cluster's object or job is
    dropped: no correct agent sends one, and its fact in FED would be about another owner's job."""
    try:
        match asked.payload:
            case WorkloadSubmitRequested() as request:
                if not authority.speaks_for(asked, request.origin):
                    claimed = f"{request.origin.title} of {request.origin.cluster}, uid {request.origin.uid}"
                    return Answered(Answer.FOREIGN, f"it asks for {claimed}")
                return await _submit(context, authority, asked, request, is_repeated=is_repeated)
            case WorkloadCancelRequested() as request:
                return await _cancel(context, authority, asked, request)
            case _:
                return Answered(Answer.IGNORED, f"{asked.name} asks for nothing")
    except (NotStoredError, UnreachableError) as error:
        return Answered(Answer.AGAIN, str(error))
    except ProblemError as refusal:
        return Answered(Answer.AGAIN, refusal.problem.detail)


async def _cancel(context: AppContext, authority: Authority, asked: Fact, request: WorkloadCancelRequested) -> Answered:
    """Store the cancellation of the object's own job. Raises NotStoredError, UnreachableError.

    The job id usually proves the owner. A job that was accepted before its namespace changed teams, or before ids
    included clusters, is looked up.
    """
    principal = authority.principal_of(asked, request)
    if principal is None:
        stored = await context.log.submitted(request.job_id)
        if stored is None or not authority.is_job_of(asked, stored.job):
            return Answered(Answer.FOREIGN, f"it cancels job {request.job_id}, which belongs to another object")
        principal = stored.job.principal
    wanted = JobCancelRequested(principal=principal, reason=request.reason)
    await context.log.request_cancel(_ref(request.job_id), wanted)
    return Answered(Answer.CANCELLED)


async def _submit(
    context: AppContext, authority: Authority, asked: Fact, request: WorkloadSubmitRequested, *, is_repeated: bool
) -> Answered:
    """Store the job, or its refusal. Raises NotStoredError, UnreachableError, and ProblemError for 5xx.

    A refusal is final, so a request that is redelivered after its refusal was stored (its acknowledgement got lost)
    must not be checked again: the queue may exist by now, and the agent then sends another request.

    The answer is always about the job that this object can have in its own cluster, whatever the request claims.
    Above the limit of its team (429) the request waits in its cluster's log, so that objects cannot fill FED.
    """
    own = _ref(authority.job_id_of(request.origin))
    if is_repeated and await context.log.is_refused(own.id, asked.id):
        return Answered(Answer.REFUSED)
    acting = authority.acting(request.origin)
    body_bytes = len(request.spec.model_dump_json(exclude_defaults=True))
    team = authority.teams.get(request.origin.namespace, NO_TEAM)
    context.limits.job(acting, team, body_bytes=body_bytes, now_s=context.time.monotonic_s())
    try:
        authority.refuse_other_team(request)
        job = accept.make_job(
            request.spec,
            principal=acting.name,
            key=ids.origin_key(authority.cluster, request.origin.uid),
            traceparent="",
        ).model_copy(update={"origin": request.origin})
        accept.refuse_other_id(job, request.job_id)
        accept.refuse_too_large(job)
        accept.refuse_large_body(JobSubmitted(job=job))
        await refuse_what_may_not_run(context, acting, request.spec)
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
            workload=request.origin.uid,
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
    """Return the job's reference with the trace of its own id; a trace in the request could be another job's."""
    return JobRef(job_id, ids.traceparent(ids.trace_id(job_id), ids.span_id(job_id)))


def consumer_config(log: LogName) -> dict[str, object]:
    """Return the consumer's configuration. A new consumer starts at the beginning of the log."""
    rows = DECLARATION.consumed
    wanted = (fact_subject(log, writer=row.writer, kind=row.kind, subject_id="*", name=row.name) for row in rows)
    return {
        "durable_name": CONSUMER,
        "description": "requests of objects that stand for jobs",
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": round(ANSWER_S_MAX * NS_PER_S),
        "max_deliver": -1,
        "max_ack_pending": UNDER_WAY_MAX,
        "filter_subjects": list(wanted),
    }


def pause_s(deliveries: int) -> float:
    """Return the delay before a request with this number of deliveries is redelivered."""
    return min(PAUSE_S_MAX, PAUSE_S_MIN * 2.0 ** min(deliveries - 1, 16))


class Workloads:
    """Answers the requests in one cluster's log. Run it as a task of its own."""

    def __init__(self, client: Client, log: LogName, context: AppContext, authority: Authority) -> None:
        self._client = client
        self._log = log
        self._context = context
        self._authority = authority
        self._decoder = Decoder(log)
        self._telling = LineLimiter(FOREIGN_TOLD_PER_S)

    async def run(self) -> None:
        """Answer requests until cancelled. Failures of the broker are retried; other exceptions are defects."""
        rest_s = PAUSE_S_MIN
        while True:
            end_if_cancelled()
            try:
                await self._ensure()
                rest_s = PAUSE_S_MIN
                async with asyncio.TaskGroup() as lanes:
                    for number in range(WORKERS):
                        lanes.create_task(self._lane(), name=f"workloads {self._log.stream} {number}")
            except* (ApiError, LogError, nats.errors.Error) as errors:
                _logger.warning(
                    "workload requests of %s cannot be read now: %s", self._log.stream, errors.exceptions[0]
                )
            await asyncio.sleep(rest_s)
            rest_s = min(PAUSE_S_MAX, 2 * rest_s)

    async def _ensure(self) -> None:
        path = f"CONSUMER.CREATE.{self._log.stream}.{CONSUMER}"
        config = {"stream_name": self._log.stream, "config": consumer_config(self._log)}
        await jsapi.call(self._client, path, config)

    async def _lane(self) -> None:
        requests = await self._client.jetstream().pull_subscribe_bind(consumer=CONSUMER, stream=self._log.stream)
        try:
            while True:
                await self._turn(requests)
        finally:
            await requests.unsubscribe()

    async def _turn(self, requests: JetStreamContext.PullSubscription) -> None:
        """Answer at most one request."""
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        try:
            fetched = await requests.fetch(1, timeout=IDLE_FETCH_S)
        except TimeoutError:
            end_if_cancelled()
            if await self._is_gone():
                raise ApiError(0, f"the consumer {CONSUMER} does not exist") from None
            if loop.time() - asked_s < PAUSE_S_MIN:  # the pull was refused, not idle
                await asyncio.sleep(PAUSE_S_MIN)
            return
        end_if_cancelled()
        await self._handle(fetched[0])

    async def _is_gone(self) -> bool:
        try:
            await jsapi.call(self._client, f"CONSUMER.INFO.{self._log.stream}.{CONSUMER}")
        except ApiError as error:
            return error.err_code in (jsapi.NO_CONSUMER, jsapi.NO_STREAM)
        return False

    async def _handle(self, raw: Msg) -> None:
        where = position(raw.reply)
        assert where is not None, f"{raw.reply} is no reply subject of a consumer"
        fact = self._decoder.decode(raw.subject, raw.headers, raw.data, seq=where.seq, time=where.time)
        if not isinstance(fact, Fact):  # the log's readers move it to the dead-letter stream
            await raw.ack()
            return
        deliveries = raw.metadata.num_delivered
        answered = await answer(self._context, self._authority, fact, is_repeated=deliveries > 1)
        self._context.metrics.workloads.labels(answered.answer.value).inc()
        if answered.answer is Answer.AGAIN:
            _logger.warning("workload %s: %s cannot be answered now: %s", fact.subject_id, fact.name, answered.detail)
            await raw.nak(delay=pause_s(deliveries))
            return
        if answered.answer is Answer.FOREIGN:
            self._tell_foreign(fact, answered.detail)
        await raw.ack()

    def _tell_foreign(self, fact: Fact, detail: str) -> None:
        """Log a foreign request, with a rate limit and quoted, because the writer may be hostile."""
        if self._telling.allows(asyncio.get_running_loop().time()):
            more = f" ({left_out} more were not logged)" if (left_out := self._telling.left_out()) else ""
            _logger.warning(
                "cluster %s requests objects of another cluster: workload %s: %r%s",
                self._authority.cluster, fact.subject_id, detail, more,
            )  # fmt: skip
