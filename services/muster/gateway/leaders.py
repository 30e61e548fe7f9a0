"""Questions to the leaders of services over the bus, with a user that cannot write facts.

Answers of composer, scaler and guard do not name their cluster; the gateway adds it.
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
"""Timeout of questions that a submission waits for, in seconds: an early refusal is better than a long wait."""
LOOK_TIMEOUT_S = 3.0
"""Timeout of other questions, in seconds: a late answer is better than none."""

ASKED_EVERY_S = 5.0
SILENT_S_MAX = 30.0
"""Time without an answer after which a service counts as without a leader, in seconds; a failover is faster."""

_log = logging.getLogger(__name__)

AskLeader = Callable[[], Awaitable[object]]


class Leader:
    """The current leader of `service` in one cluster."""

    def __init__(self, client: Client, *, cluster: str, service: str, timeout_s: float = LOOK_TIMEOUT_S) -> None:
        self._client = client
        self._cluster = cluster
        self._service = service
        self._timeout_s = timeout_s

    async def ask(self, name: str, question: Wire, answer: type[Answer]) -> Answer:
        """Return the leader's answer. Raises UnreachableError without a leader or if it fails; ProblemError if it
        refuses."""
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
        """Return the leader's answer to the question of this name."""
        return await Leader(self._client, cluster=self._cluster, service=service).ask(name, question, answer)


class NoLeaders:
    """Leaders of which none answers."""

    async def ask(self, service: str, name: str, question: Wire, answer: type[Answer]) -> Answer:  # noqa: ARG002 - the port
        """Raise UnreachableError."""
        raise UnreachableError(f"the {service} does not answer")


class NatsScheduler:
    """The scheduler of one cluster."""

    def __init__(self, client: Client, *, cluster: str) -> None:
        self._leader = Leader(client, cluster=cluster, service="scheduler", timeout_s=ASK_TIMEOUT_S)

    async def job(self, job_id: str) -> JobView | None:
        """Return the job as the scheduler folded it."""
        return (await self._leader.ask("job", AskJob(job_id=job_id), JobAnswer)).job

    async def why(self, job_id: str) -> WhyAnswer:
        """Return why the job is in its present state."""
        return await self._leader.ask("why", AskJob(job_id=job_id), WhyAnswer)

    async def dry_run(self, spec: JobSpec) -> DryRunAnswer:
        """Return what would happen to the job if it were submitted now."""
        return await self._leader.ask("dry-run", AskDryRun(spec=spec), DryRunAnswer)

    async def queue_check(self, spec: QueueSpec, *, accepted: Sequence[QueueSpec] = ()) -> QueueCheckAnswer:
        """Return whether the queue may be created or changed so."""
        return await self._leader.ask(
            "queue-check", AskQueueChange(spec=spec, accepted=tuple(accepted)), QueueCheckAnswer
        )

    async def queues(self) -> tuple[bytes, ...]:
        """Return all queues, encoded."""
        answer = await self._leader.ask("queues", AskFleet(), QueuesAnswer)
        return tuple(queue.model_dump_json().encode() for queue in answer.queues)

    async def reservation_check(self, spec: ReservationSpec) -> QueueCheckAnswer:
        """Return whether the reservation can be booked."""
        return await self._leader.ask("reservation-check", AskReservation(spec=spec), QueueCheckAnswer)

    async def reservations(self) -> tuple[bytes, ...]:
        """Return all booked reservations, encoded, by name."""
        answer = await self._leader.ask("reservations", AskFleet(), ReservationsAnswer)
        return tuple(one.model_dump_json().encode() for one in sorted(answer.reservations, key=lambda one: one.name))

    async def nodes(self) -> tuple[bytes, ...]:
        """Return all nodes, encoded."""
        answer = await self._leader.ask("nodes", AskFleet(), NodesAnswer)
        return tuple(node.model_dump_json().encode() for node in answer.nodes)

    async def cluster(self) -> ClusterView:
        """Return the properties and the current use of the cluster."""
        return await self._leader.ask("cluster", AskFleet(), ClusterView)


class NatsComposer:
    """The composer of one cluster."""

    def __init__(self, client: Client, *, cluster: str) -> None:
        self.cluster = cluster
        self._leader = Leader(client, cluster=cluster, service="composer")
        self._of_cluster = {"cluster": cluster}

    async def devices(self, *, only: str = "") -> DevicesAnswer:
        """Return the attached and moving devices, and the fabrics, with the cluster's name."""
        answer = await self._leader.ask("devices", AskFleet(only=only), DevicesAnswer)
        devices = tuple(one.model_copy(update=self._of_cluster) for one in answer.devices)
        fabrics = tuple(one.model_copy(update=self._of_cluster) for one in answer.fabrics)
        return DevicesAnswer(devices=devices, fabrics=fabrics)

    async def requests(self, *, only: str = "") -> RequestsAnswer:
        """Return the ComposabilityRequests, newest first, with the cluster's name."""
        answer = await self._leader.ask("requests", AskFleet(only=only), RequestsAnswer)
        return RequestsAnswer(requests=tuple(map(self._with_cluster, answer.requests)))

    async def compose_check(self, question: AskCompose) -> DeviceCheckAnswer:
        """Return whether the composer would accept this request."""
        return await self._leader.ask("compose-check", question, DeviceCheckAnswer)

    async def detach_check(self, question: AskDetach) -> DeviceCheckAnswer:
        """Return whether the device, or all devices of the request, may be detached."""
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
        """Return the newest scaling decisions, newest first, with the cluster's name."""
        answer = await self._leader.ask("choices", AskFleet(), ScaleAnswer)
        return ScaleAnswer(choices=tuple(one.model_copy(update=self._of_cluster) for one in answer.choices))


class NatsGuard:
    """The guard of one cluster."""

    def __init__(self, client: Client, *, cluster: str) -> None:
        self._leader = Leader(client, cluster=cluster, service="guard")
        self._of_cluster = {"cluster": cluster}

    async def report(self) -> ApiServerReport:
        """Return the state of the API servers, with the cluster's name."""
        answer = await self._leader.ask("report", AskReport(), ApiServerReport)
        return answer.model_copy(update=self._of_cluster)


class Leadership:
    """Tracks when each leader answered last. leaders: by service, a question that only the leader answers."""

    def __init__(self, leaders: Mapping[str, AskLeader], time: TimeSource) -> None:
        self._leaders = dict(leaders)
        self._time = time
        self._answered_s = dict.fromkeys(leaders, time.monotonic_s())

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the services without an answer for longer than a failover takes."""
        oldest_s = self._time.monotonic_s() - SILENT_S_MAX
        return tuple(name for name, answered_s in self._answered_s.items() if answered_s < oldest_s)

    async def watch(self) -> None:
        """Ask all leaders periodically, until cancelled."""
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
            _log.info("no leader of the %s answers: %s", name, error)
            return
        except ProblemError as error:
            _log.info("the %s refused the question: %s", name, error.problem.detail)
        self._answered_s[name] = self._time.monotonic_s()
