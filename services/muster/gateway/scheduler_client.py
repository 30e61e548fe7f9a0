"""Questions to the scheduler."""

from collections.abc import Sequence

from nats.aio.client import Client

from muster.gateway.asking import ASK_TIMEOUT_S, Leader
from muster.schemas.apiserver import ClusterView
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.facts.reservation import ReservationSpec
from muster.schemas.job import JobSpec
from muster.schemas.queries import (
    AskDryRun,
    AskFleet,
    AskJob,
    AskQueueChange,
    AskReservation,
    DryRunAnswer,
    JobAnswer,
    NodesAnswer,
    QueueCheckAnswer,
    QueuesAnswer,
    ReservationsAnswer,
    WhyAnswer,
)
from muster.schemas.views import JobView


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
