"""Questions to the scheduler over the bus. They are asked with a user that can write no fact."""

from typing import TypeVar

import nats.errors
from nats.aio.client import Client
from pydantic import ValidationError

from muster.gateway.ports import UnreachableError
from muster.gateway.problems import ProblemError
from muster.schemas.base import Wire
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import JobSpec
from muster.schemas.queries import (
    AskDryRun,
    AskFleet,
    AskJob,
    AskQueueChange,
    DryRunAnswer,
    JobAnswer,
    NodesAnswer,
    QueueCheckAnswer,
    QueuesAnswer,
    WhyAnswer,
)
from muster.schemas.subjects import query_subject
from muster.schemas.views import JobView, Problem

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

    async def queue_check(self, spec: QueueSpec) -> QueueCheckAnswer:
        """See `Scheduler.queue_check`."""
        return await self._ask("queue-check", AskQueueChange(spec=spec), QueueCheckAnswer)

    async def queues(self) -> tuple[bytes, ...]:
        """See `Scheduler.queues`."""
        answer = await self._ask("queues", AskFleet(), QueuesAnswer)
        return tuple(queue.model_dump_json().encode() for queue in answer.queues)

    async def nodes(self) -> tuple[bytes, ...]:
        """See `Scheduler.nodes`."""
        answer = await self._ask("nodes", AskFleet(), NodesAnswer)
        return tuple(node.model_dump_json().encode() for node in answer.nodes)

    async def _ask(self, name: str, question: Wire, answer: type[Answer]) -> Answer:
        subject = query_subject(self._cluster, "scheduler", name)
        if not self._client.is_connected:
            raise UnreachableError("the bus is not connected")
        try:
            reply = await self._client.request(subject, question.model_dump_json().encode(), timeout=ASK_TIMEOUT_S)
        except (nats.errors.Error, OSError) as error:
            raise UnreachableError(f"the scheduler does not answer: {type(error).__name__}") from error
        return _read(reply.data, answer)


def _read(body: bytes, answer: type[Answer]) -> Answer:
    """An answer, or the problem that stands in its place."""
    try:
        if body.startswith(b'{"type":"about:blank"'):
            problem = Problem.model_validate_json(body)
            if problem.status >= 500:
                raise UnreachableError(f"{problem.title}: {problem.detail}")
            raise ProblemError(
                problem.status, problem.title, detail=problem.detail, field=problem.field, cure=problem.cure
            )
        return answer.model_validate_json(body)
    except ValidationError as error:
        raise UnreachableError(f"the scheduler's answer is not readable: {error.errors()[0]['msg']}") from error
