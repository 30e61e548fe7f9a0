"""Questions to the leaders of services, over the bus, with a user that can write no fact.

Composer, scaler and guard do not say which cluster they speak of: who asks knows.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from nats.aio.client import Client

from muster.bus import query
from muster.bus.clock import TimeSource
from muster.gateway.background import end_if_cancelled
from muster.gateway.ports import Answer, UnreachableError
from muster.gateway.problems import ProblemError
from muster.schemas.apiserver import ApiServerReport, AskReport, ClusterView
from muster.schemas.base import Wire
from muster.schemas.devices import RequestView
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.facts.reservation import ReservationSpec
from muster.schemas.job import JobSpec
from muster.schemas.queries import (
    AskCompose,
    AskDetach,
    AskDryRun,
    AskFleet,
    AskJob,
    AskQueueChange,
    AskReservation,
    DeviceCheckAnswer,
    DevicesAnswer,
    DryRunAnswer,
    JobAnswer,
    NodesAnswer,
    QueueCheckAnswer,
    QueuesAnswer,
    RequestsAnswer,
    ReservationsAnswer,
    ScaleAnswer,
    WhyAnswer,
)
from muster.schemas.subjects import query_subject
from muster.schemas.views import JobView

ASK_TIMEOUT_S = 1.0
"""Of questions that a submission waits for: it is refused, to be sent again, rather than kept waiting."""
LOOK_TIMEOUT_S = 3.0
"""Of those that nobody else can answer, and that only somebody who looks waits for: late is better than not at all.
Where nobody is there to be asked, the broker says so at once.
"""

ASKED_EVERY_S = 5.0
SILENT_S_MAX = 30.0
"""A leader that leaves is followed by another within some seconds; after so long nobody leads."""

_log = logging.getLogger(__name__)

AskLeader = Callable[[], Awaitable[object]]


class Leader:
    """Whoever leads `service` of one cluster just now."""

    def __init__(self, client: Client, *, cluster: str, service: str, timeout_s: float = LOOK_TIMEOUT_S) -> None:
        self._client = client
        self._cluster = cluster
        self._service = service
        self._timeout_s = timeout_s

    async def ask(self, name: str, question: Wire, answer: type[Answer]) -> Answer:
        """Its answer. Raises UnreachableError if nobody leads, or it fails; ProblemError if it refuses the question."""
        subject = query_subject(self._cluster, self._service, name)
        try:
            return await query.ask(self._client, subject, question, answer, timeout_s=self._timeout_s)
        except query.UnansweredError as error:
            raise UnreachableError(f"the {self._service} does not answer: {error}") from error
        except query.ProblemError as error:
            problem = error.problem
            if problem.status >= 500:
                raise UnreachableError(f"{problem.title}: {problem.detail}") from error
            raise ProblemError(
                problem.status, problem.title, detail=problem.detail, field=problem.field, cure=problem.cure
            ) from error


class NatsLeaders:
    """Implements `Leaders` for one cluster."""

    def __init__(self, client: Client, *, cluster: str) -> None:
        self._client = client
        self._cluster = cluster

    async def ask(self, service: str, name: str, question: Wire, answer: type[Answer]) -> Answer:
        """See `Leaders.ask`."""
        return await Leader(self._client, cluster=self._cluster, service=service).ask(name, question, answer)


class NoLeaders:
    """Nobody is there to be asked."""

    async def ask(self, service: str, name: str, question: Wire, answer: type[Answer]) -> Answer:  # noqa: ARG002 - the port
        """See `Leaders.ask`."""
        raise UnreachableError(f"the {service} does not answer")


class NatsScheduler:
    """The scheduler of one cluster."""

    def __init__(self, client: Client, *, cluster: str) -> None:
        self._leader = Leader(client, cluster=cluster, service="scheduler", timeout_s=ASK_TIMEOUT_S)

    async def job(self, job_id: str) -> JobView | None:
        """See `Scheduler.job`."""
        return (await self._leader.ask("job", AskJob(job_id=job_id), JobAnswer)).job

    async def why(self, job_id: str) -> WhyAnswer:
        """See `Scheduler.why`."""
        return await self._leader.ask("why", AskJob(job_id=job_id), WhyAnswer)

    async def dry_run(self, spec: JobSpec) -> DryRunAnswer:
        """See `Scheduler.dry_run`."""
        return await self._leader.ask("dry-run", AskDryRun(spec=spec), DryRunAnswer)

    async def queue_check(self, spec: QueueSpec, *, accepted: Sequence[QueueSpec] = ()) -> QueueCheckAnswer:
        """See `Scheduler.queue_check`."""
        return await self._leader.ask(
            "queue-check", AskQueueChange(spec=spec, accepted=tuple(accepted)), QueueCheckAnswer
        )

    async def queues(self) -> tuple[bytes, ...]:
        """See `Scheduler.queues`."""
        answer = await self._leader.ask("queues", AskFleet(), QueuesAnswer)
        return tuple(queue.model_dump_json().encode() for queue in answer.queues)

    async def reservation_check(self, spec: ReservationSpec) -> QueueCheckAnswer:
        """See `Scheduler.reservation_check`."""
        return await self._leader.ask("reservation-check", AskReservation(spec=spec), QueueCheckAnswer)

    async def reservations(self) -> tuple[bytes, ...]:
        """See `Scheduler.reservations`."""
        answer = await self._leader.ask("reservations", AskFleet(), ReservationsAnswer)
        return tuple(one.model_dump_json().encode() for one in sorted(answer.reservations, key=lambda one: one.name))

    async def nodes(self) -> tuple[bytes, ...]:
        """See `Scheduler.nodes`."""
        answer = await self._leader.ask("nodes", AskFleet(), NodesAnswer)
        return tuple(node.model_dump_json().encode() for node in answer.nodes)

    async def cluster(self) -> ClusterView:
        """See `Scheduler.cluster`."""
        return await self._leader.ask("cluster", AskFleet(), ClusterView)


class NatsComposer:
    """The composer of one cluster."""

    def __init__(self, client: Client, *, cluster: str) -> None:
        self.cluster = cluster
        self._leader = Leader(client, cluster=cluster, service="composer")
        self._of_cluster = {"cluster": cluster}

    async def devices(self, *, only: str = "") -> DevicesAnswer:
        """See `Composer.devices`."""
        answer = await self._leader.ask("devices", AskFleet(only=only), DevicesAnswer)
        devices = tuple(one.model_copy(update=self._of_cluster) for one in answer.devices)
        fabrics = tuple(one.model_copy(update=self._of_cluster) for one in answer.fabrics)
        return DevicesAnswer(devices=devices, fabrics=fabrics)

    async def requests(self, *, only: str = "") -> RequestsAnswer:
        """See `Composer.requests`."""
        answer = await self._leader.ask("requests", AskFleet(only=only), RequestsAnswer)
        return RequestsAnswer(requests=tuple(map(self._with_cluster, answer.requests)))

    async def compose_check(self, question: AskCompose) -> DeviceCheckAnswer:
        """See `Composer.compose_check`."""
        return await self._leader.ask("compose-check", question, DeviceCheckAnswer)

    async def detach_check(self, question: AskDetach) -> DeviceCheckAnswer:
        """See `Composer.detach_check`."""
        return await self._leader.ask("detach-check", question, DeviceCheckAnswer)

    def _with_cluster(self, request: RequestView) -> RequestView:
        resources = tuple(one.model_copy(update=self._of_cluster) for one in request.resources)
        return request.model_copy(update={**self._of_cluster, "resources": resources})


class NatsScaler:
    """The scaler of one cluster."""

    def __init__(self, client: Client, *, cluster: str) -> None:
        self._leader = Leader(client, cluster=cluster, service="scaler")
        self._of_cluster = {"cluster": cluster}

    async def choices(self) -> ScaleAnswer:
        """See `Scaler.choices`."""
        answer = await self._leader.ask("choices", AskFleet(), ScaleAnswer)
        return ScaleAnswer(choices=tuple(one.model_copy(update=self._of_cluster) for one in answer.choices))


class NatsGuard:
    """The guard of one cluster."""

    def __init__(self, client: Client, *, cluster: str) -> None:
        self._leader = Leader(client, cluster=cluster, service="guard")
        self._of_cluster = {"cluster": cluster}

    async def report(self) -> ApiServerReport:
        """See `Guard.report`."""
        answer = await self._leader.ask("report", AskReport(), ApiServerReport)
        return answer.model_copy(update=self._of_cluster)


class Leadership:
    """When each leader answered last. leaders: by service, a question that only whoever leads answers."""

    def __init__(self, leaders: Mapping[str, AskLeader], time: TimeSource) -> None:
        self._leaders = dict(leaders)
        self._time = time
        self._answered_s = dict.fromkeys(leaders, time.monotonic_s())

    @property
    def missing(self) -> tuple[str, ...]:
        """Services that nobody has answered for longer than a change of leaders takes."""
        oldest_s = self._time.monotonic_s() - SILENT_S_MAX
        return tuple(name for name, answered_s in self._answered_s.items() if answered_s < oldest_s)

    async def watch(self) -> None:
        """Ask for ever."""
        while True:
            end_if_cancelled()
            await self.ask()
            await asyncio.sleep(ASKED_EVERY_S)

    async def ask(self) -> None:
        """Ask every leader once."""
        await asyncio.gather(*(self._ask(name, ask) for name, ask in self._leaders.items()))

    async def _ask(self, name: str, ask: AskLeader) -> None:
        try:
            await ask()
        except UnreachableError as error:
            _log.info("nobody answers for the %s: %s", name, error)
            return
        except ProblemError as error:
            _log.info("the %s answers with a problem: %s", name, error.problem.detail)
        self._answered_s[name] = self._time.monotonic_s()
