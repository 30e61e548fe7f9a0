"""Wire the projector: its projections, their storage, and the live view."""

from collections.abc import Sequence

from nats.aio.client import Client

from muster.bus.clock import SystemTime
from muster.bus.service import CoreService, LeaderHandle, Sink
from muster.bus.settings import Settings
from muster.core.fact import Core, Fact
from muster.core.instant import Instant
from muster.projector.core import FedProjectorCore, ProjectorCore
from muster.projector.declaration import DECLARATION
from muster.projector.sink import OutputSink, RedisSink, stream_identity
from muster.projector.telemetry import TelemetrySink
from muster.projector.view import ViewSink
from muster.schemas.readmodel import ENDED_ROWS_MAX, read_model
from muster.schemas.registry import StreamRole
from muster.schemas.subjects import FED_LOG, LogName, cluster_log


class Sinks:
    """Implements `muster.bus.service.Sink` for several sinks, opened in order and closed in reverse."""

    def __init__(self, *sinks: Sink) -> None:
        self._sinks = sinks

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:
        """Open every sink. Raises what one raises; the caller then closes all."""
        for sink in self._sinks:
            await sink.open(core, connection, leader)

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:
        """Call every sink. Raises what one raises."""
        for sink in self._sinks:
            await sink.after_fold(facts, last_seq=last_seq, now=now)

    async def close(self) -> None:
        """Close every sink, then raise the first failure."""
        failed: BaseException | None = None
        for sink in reversed(self._sinks):
            try:
                await sink.close()
            except Exception as error:  # noqa: BLE001 - the others are closed first
                failed = failed or error
        if failed is not None:
            raise failed


def services(settings: Settings) -> tuple[CoreService, ...]:
    """Return one projection per log."""
    time = SystemTime()
    count = len(settings.clusters)

    def of_log(log: LogName, *, ended_max: int = ENDED_ROWS_MAX) -> tuple[Sink, ...]:
        identity = stream_identity(log.stream)
        return (
            RedisSink(redis_url=settings.redis_url, model=read_model(log), identity=identity, ended_max=ended_max),
            ViewSink(log.scope, log.stream, time),
        )

    def of_cluster(cluster: str) -> CoreService:
        log = cluster_log(cluster)

        def sinks() -> Sinks:
            beside = (TelemetrySink(cluster, settings.redis_url, read_model(log)), OutputSink(cluster, time))
            return Sinks(*of_log(log), *beside)

        return CoreService(
            declaration=DECLARATION,
            role=StreamRole.LOG,
            core=lambda: ProjectorCore(cluster),
            sink=sinks,
            cluster=cluster,
        )

    return (
        *map(of_cluster, settings.clusters),
        CoreService(
            declaration=DECLARATION,
            role=StreamRole.FED,
            core=lambda: FedProjectorCore(clusters=count),
            sink=lambda: Sinks(*of_log(FED_LOG, ended_max=ENDED_ROWS_MAX * count)),
        ),
    )
