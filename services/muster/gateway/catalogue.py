"""The catalogue that jobs are checked against, in memory and refreshed in the background."""

import asyncio
import logging

from muster.bus.clock import TimeSource
from muster.gateway.accept import Catalogue, Shape
from muster.gateway.background import end_if_cancelled
from muster.gateway.ports import ReadView, Scheduler, UnreachableError
from muster.gateway.problems import ProblemError, unavailable
from muster.quota.admission import Admission, admissions
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.views import NodeView, QueueView

REFRESH_S = 0.5
STALE_S = 5.0  # age from which the catalogue may not be used
REFRESH_TIMEOUT_S = 2.5

_log = logging.getLogger(__name__)


class CatalogueCache:
    """The newest catalogue, with one refresh at a time; a request for a newer one waits for the current refresh.

    to_come: shapes of nodes that scaling could add; a job that fits one of them may wait for it.
    """

    def __init__(
        self, *, view: ReadView, scheduler: Scheduler, time: TimeSource, to_come: tuple[Shape, ...] = ()
    ) -> None:
        self._view = view
        self._scheduler = scheduler
        self._time = time
        self._to_come = to_come
        self._known = Catalogue()
        self._known_at_s: float | None = None
        self._refreshing: asyncio.Task[None] | None = None

    @property
    def grows(self) -> bool:
        """Return whether scaling could add to the fleet."""
        return bool(self._to_come)

    @property
    def is_fresh(self) -> bool:
        """Return whether the catalogue is recent enough for checks."""
        return self._known_at_s is not None and self._time.monotonic_s() - self._known_at_s < STALE_S

    def now(self) -> Catalogue | None:
        """Return the catalogue if it is fresh, else None."""
        return self._known if self.is_fresh else None

    async def newer(self) -> Catalogue:
        """Return a catalogue that was read after this call. Raises ProblemError (503) if no source answers."""
        running = self._refreshing
        if running is not None and not running.done():
            await asyncio.wait([running])  # it began before this call, so its result may be too old
        if self._refreshing is running:
            self._refreshing = asyncio.create_task(self._refresh(), name="refresh-catalogue")
        assert self._refreshing is not None
        task = self._refreshing
        await asyncio.wait([task], timeout=REFRESH_TIMEOUT_S)
        if not task.done() or task.exception() is not None or not self.is_fresh:
            raise unavailable("the queues and nodes are unknown: neither the read model nor the scheduler answers")
        return self._known

    async def keep_fresh(self) -> None:
        """Refresh periodically until cancelled."""
        while True:
            end_if_cancelled()
            try:
                await self.newer()
            except ProblemError as error:
                _log.warning("jobs cannot be checked: %s", error.problem.detail)
            await asyncio.sleep(REFRESH_S)

    async def _refresh(self) -> None:
        try:
            self._known = await self._from_view()
        except UnreachableError:
            self._known = await self._from_scheduler()
        self._known_at_s = self._time.monotonic_s()

    async def _from_view(self) -> Catalogue:
        shapes = await self._view.shapes()
        if shapes is None:
            raise UnreachableError("the read model is empty")
        return self._catalogue(await self._view.queues(), tuple(Shape(*shape) for shape in shapes))

    async def _from_scheduler(self) -> Catalogue:
        queues, nodes = await asyncio.gather(self._scheduler.queues(), self._scheduler.nodes())
        rows = (NodeView.model_validate_json(node) for node in nodes)
        shapes = {
            Shape(node.gpu_model, node.gpus, node.cpu_milli, node.memory_mib, _levels(node)): None for node in rows
        }
        return self._catalogue(queues, tuple(shapes))

    def _catalogue(self, queues: tuple[bytes, ...], there: tuple[Shape, ...]) -> Catalogue:
        """Return the catalogue. Nodes to come count only beside existing nodes, which define the topology levels."""
        return Catalogue(_queues(queues), (*there, *self._to_come) if there else ())


def _levels(node: NodeView) -> tuple[str, ...]:
    return tuple(level for level, _ in (*node.domains, *node.device_domains))


def _queues(rows: tuple[bytes, ...]) -> dict[str, tuple[Admission, ...]]:
    """Return the rules of each queue in each cluster. They may differ while a cluster is disconnected."""
    clusters: dict[str, dict[str, QueueSpec]] = {}
    for queue in map(QueueView.model_validate_json, rows):
        spec = queue.spec or QueueSpec(name=queue.name, parent=queue.parent, closed=queue.closed)
        clusters.setdefault(queue.cluster, {})[queue.name] = spec
    found: dict[str, tuple[Admission, ...]] = {}
    for specs in clusters.values():
        for name, admission in admissions(specs).items():
            found[name] = (*found.get(name, ()), admission)
    return found
