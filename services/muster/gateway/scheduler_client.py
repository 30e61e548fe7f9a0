"""Questions to the scheduler over the bus. They are asked with a user that can write no fact."""

from collections.abc import Sequence
from typing import TypeVar

from nats.aio.client import Client

from muster.bus import query
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import ProblemError
from muster.schemas.base import Wire
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
from muster.schemas.subjects import query_subject
from muster.schemas.views import JobView

ASK_TIMEOUT_S = 1.0

Answer = TypeVar("Answer", bound=Wire)


class NatsScheduler:
    """The scheduler of one cluster."""

    def __init__(self, client: Client, *, cluster: str) -> None:
        self._client = client
        self._cluster = cluster

    async def job(self, job_id: str) -> JobView | None:
        """See `Scheduler.job`."""
        return (await self._ask("job", AskJob(job_id=job_id), JobAnswer)).job

    async def why(self, job_id: str) -> WhyAnswer:
        """See `Scheduler.why`."""
        return await self._ask("why", AskJob(job_id=job_id), WhyAnswer)

    async def dry_run(self, spec: JobSpec) -> DryRunAnswer:
        """See `Scheduler.dry_run`."""
        return await self._ask("dry-run", AskDryRun(spec=spec), DryRunAnswer)

    async def queue_check(self, spec: QueueSpec, *, accepted: Sequence[QueueSpec] = ()) -> QueueCheckAnswer:
        """See `Scheduler.queue_check`."""
        return await self._ask("queue-check", AskQueueChange(spec=spec, accepted=tuple(accepted)), QueueCheckAnswer)

    async def queues(self) -> tuple[bytes, ...]:
        """See `Scheduler.queues`."""
        answer = await self._ask("queues", AskFleet(), QueuesAnswer)
        return tuple(queue.model_dump_json().encode() for queue in answer.queues)

    async def reservation_check(self, spec: ReservationSpec) -> QueueCheckAnswer:
        """See `Scheduler.reservation_check`."""
        return await self._ask("reservation-check", AskReservation(spec=spec), QueueCheckAnswer)

    async def reservations(self) -> tuple[bytes, ...]:
        """See `Scheduler.reservations`."""
        answer = await self._ask("reservations", AskFleet(), ReservationsAnswer)
        return tuple(one.model_dump_json().encode() for one in sorted(answer.reservations, key=lambda one: one.name))

    async def nodes(self) -> tuple[bytes, ...]:
        """See `Scheduler.nodes`."""
        answer = await self._ask("nodes", AskFleet(), NodesAnswer)
        return tuple(node.model_dump_json().encode() for node in answer.nodes)

    async def _ask(self, name: str, question: Wire, answer: type[Answer]) -> Answer:
        subject = query_subject(self._cluster, "scheduler", name)
        try:
            return await query.ask(self._client, subject, question, answer, timeout_s=ASK_TIMEOUT_S)
        except query.UnansweredError as error:
            raise UnreachableError(f"the scheduler does not answer: {error}") from error
        except query.ProblemError as error:
            problem = error.problem
            if problem.status >= 500:
                raise UnreachableError(f"{problem.title}: {problem.detail}") from error
            raise ProblemError(
                problem.status, problem.title, detail=problem.detail, field=problem.field, cure=problem.cure
            ) from error
