"""Wiring only: the telemetry service's core over the exporters of one cluster."""

from functools import partial

from muster.bus.clock import SystemTime
from muster.bus.service import CoreService, Hosted
from muster.bus.settings import EXPORTER_URL, Settings
from muster.schemas.registry import StreamRole
from muster.telemetry.core.answers import answer_idle, answer_job_use, answer_top
from muster.telemetry.core.config import TelemetryConfig
from muster.telemetry.core.core import TelemetryCore
from muster.telemetry.core.energy import answer_energy
from muster.telemetry.declaration import DECLARATION
from muster.telemetry.sink import Scrapes


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """The telemetry service of one cluster. Without exporters it only folds, since checkpoints wait for its part."""
    config, url = config_of(settings), url_of(settings)
    told = settings.telemetry
    scrapes = partial(
        Scrapes,
        cluster=settings.cluster,
        url=url,
        interval_s=told.interval_s,
        timeout_s=told.timeout_s,
        stale_s=told.stale_s,
        clock=SystemTime(),
    )
    return (
        CoreService(
            declaration=DECLARATION,
            role=StreamRole.LOG,
            core=lambda: TelemetryCore(config),
            queries={"job-use": answer_job_use, "top": answer_top, "idle": answer_idle, "energy": answer_energy},
            sink=scrapes if url else None,
        ),
    )


def config_of(settings: Settings) -> TelemetryConfig:
    """The core's part of the settings."""
    told = settings.telemetry
    return TelemetryConfig(
        interval_s=told.interval_s,
        idle_below_pct=told.idle_below_pct,
        idle_after_s=told.idle_after_s,
        report_s=told.report_s,
    )


def url_of(settings: Settings) -> str:
    """Where a node's page is, "" if nobody is asked. A stack that runs exporters of its own writes the setting."""
    told = settings.telemetry
    if not told.enabled:
        return ""
    return told.url or (EXPORTER_URL if settings.kubernetes is not None else "")
