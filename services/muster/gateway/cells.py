"""What a gateway asks of one cluster, and of which cluster a request speaks.

A request that names a cluster (`?cluster=NAME`) is answered as if there were no other one. Without it, jobs, nodes,
queues and reservations are those of all clusters; devices, fabrics, the scaler's choices and the API server are the
first cluster's.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nats.aio.client import Client

from muster.gateway.asking import NatsLeaders
from muster.gateway.device_clients import NatsComposer, NatsScaler
from muster.gateway.guard_client import NatsGuard
from muster.gateway.ports import Composer, Guard, Leaders, ReadView, Scaler, Scheduler, UnreachableError
from muster.gateway.problems import not_found
from muster.gateway.scheduler_client import NatsScheduler
from muster.gateway.schedulers import Schedulers
from muster.schemas.apiserver import ClusterView

NAME_CHARS_TOLD = 100


@dataclass(frozen=True, slots=True)
class Cell:
    """Who answers for one cluster. view: its rows alone, and the federation's."""

    name: str
    view: ReadView
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
    """Every cluster, in order; one whose scheduler does not answer is there too, and says so."""
    return tuple(await asyncio.gather(*(_view_of(cell) for cell in cells.values())))


async def _view_of(cell: Cell) -> ClusterView:
    try:
        return await cell.scheduler.cluster()
    except UnreachableError as error:
        return ClusterView(name=cell.name, backend="unknown", lacking=(str(error),))


def cell_named(cells: Mapping[str, Cell], name: str) -> Cell:
    """That cluster's. Raises ProblemError (404), with the names that there are."""
    cell = cells.get(name)
    if cell is None:
        raise not_found("cluster", name[:NAME_CHARS_TOLD], cure=f"Name one of {', '.join(cells)}.")
    return cell
