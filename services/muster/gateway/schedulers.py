"""Several clusters' schedulers as one: who knows a job answers for it, and lists are put together.

A cluster that does not answer is left out where others do, so a cut link hides what is there and nothing else. Only if
nobody answers, nobody does.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from muster.gateway.ports import Scheduler, UnreachableError
from muster.schemas.apiserver import ClusterView
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.facts.reservation import ReservationSpec
from muster.schemas.job import JobSpec
from muster.schemas.queries import DryRunAnswer, QueueCheckAnswer, WhyAnswer
from muster.schemas.views import JobView

T = TypeVar("T")


class Schedulers:
    """Implements `ports.Scheduler`. schedulers: by cluster, in the order in which clusters are preferred; not none."""

    def __init__(self, schedulers: Mapping[str, Scheduler]) -> None:
        assert schedulers, "there is at least one cluster"
        self._schedulers = tuple(schedulers.values())

    async def job(self, job_id: str) -> JobView | None:
        """See `Scheduler.job`. The row of who has it now, where it moved from one cluster to another."""
        found = [view for view in await self._answers(lambda one: one.job(job_id)) if view is not None]
        live = (view for view in found if not view.phase.is_terminal)
        return next(chain(live, found), None)

    async def why(self, job_id: str) -> WhyAnswer:
        """See `Scheduler.why`."""
        answers = await self._answers(lambda one: one.why(job_id))
        known = [answer for answer in answers if answer.job is not None]
        live = (answer for answer in known if answer.job is not None and not answer.job.phase.is_terminal)
        return next(chain(live, known), answers[0])

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
