"""Several clusters' schedulers as one: a job's cluster answers for it, and lists are put together.

Which cluster has a job the federation is asked: any scheduler could answer for any job. Of lists, a cluster that does
not answer is left out where others do, so a cut link hides what is there and nothing else. Only if nobody answers,
nobody does.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from muster.gateway.ports import Leaders, Scheduler, UnreachableError
from muster.schemas.apiserver import ClusterView
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.facts.reservation import ReservationSpec
from muster.schemas.job import JobSpec
from muster.schemas.members import AskAssignment, AssignmentView
from muster.schemas.queries import DryRunAnswer, QueueCheckAnswer, WhyAnswer
from muster.schemas.views import JobView

T = TypeVar("T")


class Schedulers:
    """Implements `ports.Scheduler`."""

    def __init__(self, schedulers: Mapping[str, Scheduler], *, leaders: Leaders) -> None:
        """Ask these. schedulers: by cluster, in the order in which clusters are preferred; not none.

        leaders: of the cluster under whose name the federation is asked.
        """
        assert schedulers, "there is at least one cluster"
        self._by_cluster = dict(schedulers)
        self._schedulers = tuple(schedulers.values())
        self._leaders = leaders

    async def job(self, job_id: str) -> JobView | None:
        """See `Scheduler.job`. None also if the cluster that has the job, or had it last, is none of these."""
        scheduler = await self._assigned(job_id)
        return None if scheduler is None else await scheduler.job(job_id)

    async def why(self, job_id: str) -> WhyAnswer:
        """See `Scheduler.why`."""
        scheduler = await self._assigned(job_id)
        return WhyAnswer() if scheduler is None else await scheduler.why(job_id)

    async def dry_run(self, spec: JobSpec) -> DryRunAnswer:
        """See `Scheduler.dry_run`. The best that a cluster says; where it goes, the federation's rules decide."""
        return min(await self._answers(lambda one: one.dry_run(spec)), key=_promise)

    async def queue_check(self, spec: QueueSpec, *, accepted: Sequence[QueueSpec] = ()) -> QueueCheckAnswer:
        """See `Scheduler.queue_check`. Queues are every cluster's, so one that refuses is enough."""
        return _strictest(await self._answers(lambda one: one.queue_check(spec, accepted=accepted)))

    async def reservation_check(self, spec: ReservationSpec) -> QueueCheckAnswer:
        """See `Scheduler.reservation_check`, as for queues."""
        return _strictest(await self._answers(lambda one: one.reservation_check(spec)))

    async def queues(self) -> tuple[bytes, ...]:
        """See `Scheduler.queues`."""
        return tuple(chain.from_iterable(await self._answers(lambda one: one.queues())))

    async def reservations(self) -> tuple[bytes, ...]:
        """See `Scheduler.reservations`."""
        return tuple(chain.from_iterable(await self._answers(lambda one: one.reservations())))

    async def nodes(self) -> tuple[bytes, ...]:
        """See `Scheduler.nodes`."""
        return tuple(chain.from_iterable(await self._answers(lambda one: one.nodes())))

    async def cluster(self) -> ClusterView:
        """See `Scheduler.cluster`. Of the first that answers."""
        return (await self._answers(lambda one: one.cluster()))[0]

    async def _assigned(self, job_id: str) -> Scheduler | None:
        """Return the scheduler of the job's cluster. Raises UnreachableError if the federation does not answer."""
        found = await self._leaders.ask("federation", "assignment", AskAssignment(job_id=job_id), AssignmentView)
        return self._by_cluster.get(found.cluster)

    async def _answers(self, ask: Callable[[Scheduler], Awaitable[T]]) -> list[T]:
        """What those say who answer, in order. Raises what the first said if nobody does, and every refusal."""
        return await answers(map(ask, self._schedulers))


async def answers(asked: Iterable[Awaitable[T]]) -> list[T]:
    """The answers of those who answer, in order. Raises UnreachableError if nobody does, and every refusal."""
    found: list[T] = []
    unreachable: list[UnreachableError] = []
    for said in await asyncio.gather(*asked, return_exceptions=True):
        if isinstance(said, UnreachableError):
            unreachable.append(said)
        elif isinstance(said, BaseException):
            raise said
        else:
            found.append(said)
    if not found:
        raise unreachable[0]
    return found


def _promise(answer: DryRunAnswer) -> tuple[bool, bool, bool, int]:
    """Sorts answers, the best first: placed now, else expected soonest, then unknown, then refused."""
    return (answer.refused, not answer.placed, not answer.expected_start_at, answer.expected_start_at)


def _strictest(verdicts: Sequence[QueueCheckAnswer]) -> QueueCheckAnswer:
    return next((verdict for verdict in verdicts if verdict.field), verdicts[0])
