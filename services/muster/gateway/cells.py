"""The services of one cluster as a gateway asks them, and the choice of the cluster for a request.

A request that names a cluster (`?cluster=NAME`) is answered as if there were no other one. Without it, jobs, nodes,
queues and reservations are those of all clusters; devices, fabrics, the scaler's decisions and the API servers are
those of the first cluster.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from nats.aio.client import Client

from muster.gateway.leaders import NatsComposer, NatsGuard, NatsLeaders, NatsScaler, NatsScheduler
from muster.gateway.ports import Composer, Guard, Leaders, ReadView, Scaler, Scheduler, UnreachableError
from muster.gateway.problems import not_found
from muster.schemas.apiserver import ClusterView
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.facts.reservation import ReservationSpec
from muster.schemas.job import JobSpec
from muster.schemas.members import AskAssignment, AssignmentView
from muster.schemas.queries import DryRunAnswer, QueueCheckAnswer, WhyAnswer
from muster.schemas.views import JobView

T = TypeVar("T")

NAME_CHARS_TOLD = 100


class Schedulers:
    """Implements `ports.Scheduler` for several clusters: a job's cluster answers for it, and lists are merged.

    The federation names the cluster of a job, as any scheduler could answer for any job. A cluster that does not
    answer is left out of a list if others do, so a cut link hides only that cluster.
    """

    def __init__(self, schedulers: Mapping[str, Scheduler], *, leaders: Leaders) -> None:
        """Ask these schedulers. schedulers: by cluster, in order of preference; at least one.

        leaders: of the cluster under whose name the federation is asked.
        """
        assert schedulers, "there is at least one cluster"
        self._by_cluster = dict(schedulers)
        self._schedulers = tuple(schedulers.values())
        self._leaders = leaders

    async def job(self, job_id: str) -> JobView | None:
        """Return the job from its cluster's scheduler; None also if that cluster is not one of these."""
        scheduler = await self._assigned(job_id)
        return None if scheduler is None else await scheduler.job(job_id)

    async def why(self, job_id: str) -> WhyAnswer:
        """Return why the job is in its present state, from its cluster's scheduler."""
        scheduler = await self._assigned(job_id)
        return WhyAnswer() if scheduler is None else await scheduler.why(job_id)

    async def dry_run(self, spec: JobSpec) -> DryRunAnswer:
        """Return the best answer of all clusters; the routing rules of the federation choose the cluster."""
        return min(await self._answers(lambda one: one.dry_run(spec)), key=_promise)

    async def queue_check(self, spec: QueueSpec, *, accepted: Sequence[QueueSpec] = ()) -> QueueCheckAnswer:
        """Return whether the queue may be created or changed so; one cluster that refuses is enough."""
        return _strictest(await self._answers(lambda one: one.queue_check(spec, accepted=accepted)))

    async def reservation_check(self, spec: ReservationSpec) -> QueueCheckAnswer:
        """Return whether the reservation can be booked; one cluster that refuses is enough."""
        return _strictest(await self._answers(lambda one: one.reservation_check(spec)))

    async def queues(self) -> tuple[bytes, ...]:
        """Return the queues of all clusters, encoded."""
        return tuple(chain.from_iterable(await self._answers(lambda one: one.queues())))

    async def reservations(self) -> tuple[bytes, ...]:
        """Return the booked reservations of all clusters, encoded."""
        return tuple(chain.from_iterable(await self._answers(lambda one: one.reservations())))

    async def nodes(self) -> tuple[bytes, ...]:
        """Return the nodes of all clusters, encoded."""
        return tuple(chain.from_iterable(await self._answers(lambda one: one.nodes())))

    async def cluster(self) -> ClusterView:
        """Return the first cluster that answers."""
        return (await self._answers(lambda one: one.cluster()))[0]

    async def _assigned(self, job_id: str) -> Scheduler | None:
        """Return the scheduler of the job's cluster. Raises UnreachableError if the federation does not answer."""
        found = await self._leaders.ask("federation", "assignment", AskAssignment(job_id=job_id), AssignmentView)
        return self._by_cluster.get(found.cluster)

    async def _answers(self, ask: Callable[[Scheduler], Awaitable[T]]) -> list[T]:
        """Return the answers of the clusters that answer, in order. Raises as `answers`."""
        return await answers(map(ask, self._schedulers))


async def answers(asked: Iterable[Awaitable[T]]) -> list[T]:
    """Return the answers, in order, without unreachable ones. Raises UnreachableError if none remains, and any
    refusal."""
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
    """Return the sort key of an answer: placed now, then the earliest expected start, then unknown, then refused."""
    return (answer.refused, not answer.placed, not answer.expected_start_at, answer.expected_start_at)


def _strictest(verdicts: Sequence[QueueCheckAnswer]) -> QueueCheckAnswer:
    return next((verdict for verdict in verdicts if verdict.field), verdicts[0])


@dataclass(frozen=True, slots=True)
class Cell:
    """The services of one cluster."""

    name: str
    view: ReadView
    """The rows of this cluster and of the federation."""
    scheduler: Scheduler
    composer: Composer
    scaler: Scaler
    guard: Guard
    leaders: Leaders


def nats_cell(name: str, view: ReadView, scheduler: Scheduler, asking: Client) -> Cell:
    """Return the services of a cluster, asked over the bus."""
    return Cell(
        name,
        view,
        scheduler,
        NatsComposer(asking, cluster=name),
        NatsScaler(asking, cluster=name),
        NatsGuard(asking, cluster=name),
        NatsLeaders(asking, cluster=name),
    )


def nats_schedulers(
    clusters: Sequence[str], asking: Client, *, asked_as: str
) -> tuple[Mapping[str, Scheduler], Scheduler]:
    """Return the scheduler of each cluster, and those of all clusters as one.

    asked_as: the cluster under whose name the federation is asked which cluster has a job, where there are several.
    """
    each: dict[str, Scheduler] = {name: NatsScheduler(asking, cluster=name) for name in clusters}
    if len(each) == 1:
        return each, next(iter(each.values()))
    leaders = NatsLeaders(asking, cluster=asked_as)
    alone = {name: Schedulers({name: scheduler}, leaders=leaders) for name, scheduler in each.items()}
    return alone, Schedulers(each, leaders=leaders)


async def cluster_views(cells: Mapping[str, Cell]) -> tuple[ClusterView, ...]:
    """Return every cluster, in order; a cluster without a scheduler's answer is included and reports the error."""
    return tuple(await asyncio.gather(*(_view_of(cell) for cell in cells.values())))


async def _view_of(cell: Cell) -> ClusterView:
    try:
        return await cell.scheduler.cluster()
    except UnreachableError as error:
        return ClusterView(name=cell.name, backend="unknown", lacking=(str(error),))


def cell_named(cells: Mapping[str, Cell], name: str) -> Cell:
    """Return the cell of this name. Raises ProblemError (404), which lists the valid names."""
    cell = cells.get(name)
    if cell is None:
        raise not_found("cluster", name[:NAME_CHARS_TOLD], cure=f"Use one of {', '.join(cells)}.")
    return cell
