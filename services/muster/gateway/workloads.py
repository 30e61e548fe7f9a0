"""Requests of a cluster's objects, taken from its log with one durable consumer that all gateways share.

Whoever holds a cluster's agent can write any request into its log. So nothing that a request says of itself counts: the
cluster is the log's, the object is the subject, and the team is the one that the administrator named for the namespace.
The checks are those of a person's request.

Each request is acknowledged after its answer stands in FED. One that cannot be answered now is put back and comes
again, so nothing is lost while FED is full or no service knows the queues. Answering the same request twice is
answering it once: job ids follow from the objects.
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
"""What requests of namespaces that act for no team are counted under: it is no team's name."""

SERVER_ERRORS = 500
"""From this status on a refusal is about the gateway and not about the job: it is asked again."""

CONSUMER = WORKLOADS_CONSUMER
WORKERS = 8
"""Requests under way at a time, in one gateway."""
UNDER_WAY_MAX = 64
"""In all gateways together."""
ANSWER_S_MAX = 30.0
"""Then the broker offers the request to somebody else: more than an append with all its repetitions takes."""
IDLE_FETCH_S = 5.0
PAUSE_S_MIN, PAUSE_S_MAX = 0.5, 10.0
"""Before a request is offered again, and between attempts to get at them; doubled from one to the next."""
FOREIGN_TOLD_PER_S = 1
"""Lines about requests that name what is not their cluster's. All are counted."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Authority:
    """The requests of one cluster's log. teams: for which team each of its namespaces acts. setting: that says so."""

    cluster: str
    teams: Mapping[str, str] = field(default_factory=dict)
    setting: str = "kubernetes.teams"

    def speaks_for(self, asked: Fact, origin: WorkloadRef) -> bool:
        """Whether the object that a request names is the one that it is about, and of this cluster."""
        return origin.cluster == self.cluster and origin.uid == asked.subject_id

    def job_id_of(self, origin: WorkloadRef) -> str:
        """The job that the object can have. That of a namespace without a team is nobody's: it is only refused."""
        return self._job_id(origin.namespace, origin.uid)

    def acting(self, origin: WorkloadRef) -> Principal:
        """Return whom the object acts as: who may make objects in a team's namespace may as much as its submitters."""
        team = self.teams.get(origin.namespace)
        return Principal(ids.origin_principal(origin.namespace), Role.SUBMITTER, frozenset(filter(None, (team,))))

    def refuse_other_team(self, request: WorkloadSubmitRequested) -> None:
        """Raises ProblemError (422) unless the object's namespace acts for the team that it asks for."""
        namespace, team = request.origin.namespace, self.teams.get(request.origin.namespace)
        if team is None:
            raise invalid(
                f"namespace {namespace} of cluster {self.cluster} acts for no team",
                field="metadata.namespace",
                cure=f"Name its team in {self.setting}.",
            )
        if team != request.spec.team:
            raise invalid(
                f"namespace {namespace} of cluster {self.cluster} acts for team {team} by {self.setting}, and for "
                f"{request.spec.team} by kubernetes.teams in the settings of the cluster's agent",
                field="metadata.namespace",
                cure="Let both settings say the same.",
            )

    def principal_of(self, asked: Fact, request: WorkloadCancelRequested) -> str | None:
        """On whose behalf the object cancels its job, if the job's id says that it is this object's; else None.

        The cluster and the object are part of what the id is a hash of, so nobody else's job has it.
        """
        namespace = request.principal.removeprefix(PRINCIPAL_PREFIX)
        is_own = namespace in self.teams and self._job_id(namespace, asked.subject_id) == request.job_id
        return ids.origin_principal(namespace) if is_own else None

    def is_job_of(self, asked: Fact, job: Job) -> bool:
        """Whether the job, as it was submitted, stands for the object that a request is about."""
        return job.origin is not None and self.speaks_for(asked, job.origin)

    def _job_id(self, namespace: str, uid: str) -> str:
        team = self.teams.get(namespace, "")
        return ids.origin_job_id(team=team, cluster=self.cluster, namespace=namespace, uid=uid)


def authority_of(settings: Settings, cluster: str) -> Authority:
    """Of one cluster whose log this gateway reads: in a centre by its own settings, never by the cell's."""
    if settings.role == "centre":
        member = next(member for member in settings.federation.clusters if member.name == cluster)
        return Authority(cluster, member.teams, f"teams of {cluster} in federation.clusters of the centre")
    return Authority(cluster, settings.kubernetes.teams if settings.kubernetes is not None else {})


class Answer(StrEnum):
    """What became of an object's request. AGAIN: nobody can tell now. FOREIGN: it names what is not its cluster's."""

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

    Almost always the id says whose job it is. One that was accepted before its namespace acted for another team, or
    before ids named clusters, is looked up.
    """
    principal = authority.principal_of(asked, request)
    if principal is None:
        stored = await context.log.submitted(request.job_id)
        if stored is None or not authority.is_job_of(asked, stored.job):
            return Answered(Answer.FOREIGN, f"it cancels job {request.job_id}, which does not stand for it")
        principal = stored.job.principal
    wanted = JobCancelRequested(principal=principal, reason=request.reason)
    await context.log.request_cancel(_ref(request.job_id), wanted)
    return Answered(Answer.CANCELLED)


async def _submit(
    context: AppContext, authority: Authority, asked: Fact, request: WorkloadSubmitRequested, *, is_repeated: bool
) -> Answered:
    """Store the job, or its refusal. Raises NotStoredError, UnreachableError, and ProblemError for 5xx.

    A request is refused once and for ever, so one that comes again after its refusal was stored, whose acknowledgement
    got lost, must not be judged anew: the queue may have been made meanwhile, and its agent asks again by another
    request.
    Whatever the request says, the answer is about the job that the object can have, and for its own cluster. Above the
    limit of its team (429) it waits in its cluster's log, so that objects cannot fill FED.
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
    """With the trace that the job of an object has: its own. One that a request names may be another job's."""
    return JobRef(job_id, ids.traceparent(ids.trace_id(job_id), ids.span_id(job_id)))


def consumer_config(log: LogName) -> dict[str, object]:
    """The consumer as it should be. A new one begins at the log's beginning: what waits there was never answered."""
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
    """Before a request that was offered so often is offered again."""
    return min(PAUSE_S_MAX, PAUSE_S_MIN * 2.0 ** min(deliveries - 1, 16))


class Workloads:
    """Follows one cluster's log. Run it as a task of its own."""

    def __init__(self, client: Client, log: LogName, context: AppContext, authority: Authority) -> None:
        self._client = client
        self._log = log
        self._context = context
        self._authority = authority
        self._decoder = Decoder(log)
        self._telling = LineLimiter(FOREIGN_TOLD_PER_S)

    async def run(self) -> None:
        """Answer until cancelled. What the broker cannot do now is tried again; all else that is raised is a defect."""
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
                _logger.warning("no requests of workloads from %s now: %s", self._log.stream, errors.exceptions[0])
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
        """At most one request."""
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        try:
            fetched = await requests.fetch(1, timeout=IDLE_FETCH_S)
        except TimeoutError:
            end_if_cancelled()
            if await self._is_gone():
                raise ApiError(0, f"the consumer {CONSUMER} is gone") from None
            if loop.time() - asked_s < PAUSE_S_MIN:  # it was refused, not idle
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
        if not isinstance(fact, Fact):  # the log's readers bury it
            await raw.ack()
            return
        deliveries = raw.metadata.num_delivered
        answered = await answer(self._context, self._authority, fact, is_repeated=deliveries > 1)
        self._context.metrics.workloads.labels(answered.answer.value).inc()
        if answered.answer is Answer.AGAIN:
            _logger.warning("workload %s: %s is not answered now: %s", fact.subject_id, fact.name, answered.detail)
            await raw.nak(delay=pause_s(deliveries))
            return
        if answered.answer is Answer.FOREIGN:
            self._tell_foreign(fact, answered.detail)
        await raw.ack()

    def _tell_foreign(self, fact: Fact, detail: str) -> None:
        """Say it in the log, but never as often, nor in such words, as whoever writes the requests may like."""
        if self._telling.allows(asyncio.get_running_loop().time()):
            more = f" ({left_out} more were not told)" if (left_out := self._telling.left_out()) else ""
            _logger.warning(
                "cluster %s asks for what is not its own: workload %s: %r%s",
                self._authority.cluster, fact.subject_id, detail, more,
            )  # fmt: skip
