"""Wiring only: the two projections, where they are stored and how they are shown live."""

from muster.bus.clock import SystemTime
from muster.bus.service import CoreService, Sink
from muster.bus.settings import Settings
from muster.projector.core import FedProjectorCore, ProjectorCore
from muster.projector.declaration import DECLARATION
from muster.projector.output import OutputSink
from muster.projector.sink import RedisSink, stream_identity
from muster.projector.sinks import Sinks
from muster.projector.telemetry import TelemetrySink
from muster.projector.view import ViewSink
from muster.schemas.readmodel import ENDED_ROWS_MAX, read_model
from muster.schemas.registry import StreamRole
from muster.schemas.subjects import FED_LOG, LogName, cluster_log


def services(settings: Settings) -> tuple[CoreService, ...]:
    """One projection per log."""
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
