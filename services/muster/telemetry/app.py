"""Wiring only: the telemetry service's core over the exporters of one cluster."""

from functools import partial

from muster.bus.clock import SystemTime
from muster.bus.service import CoreService, Hosted
from muster.bus.settings import EXPORTER_URL, Settings
from muster.schemas.registry import StreamRole
from muster.telemetry.core.answers import answer_energy, answer_idle, answer_job_use, answer_top
from muster.telemetry.core.config import TelemetryConfig
from muster.telemetry.core.core import TelemetryCore
from muster.telemetry.declaration import DECLARATION
from muster.telemetry.sink import Scrapes


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """The telemetry service of one cluster. Without exporters it only folds, since checkpoints wait for its part."""
    config, url = config_of(settings), url_of(settings)
    section = settings.telemetry
    scrapes = partial(
        Scrapes,
        cluster=settings.cluster,
        url=url,
        interval_s=section.interval_s,
        timeout_s=section.timeout_s,
        stale_s=section.stale_s,
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
    section = settings.telemetry
    return TelemetryConfig(
        interval_s=section.interval_s,
        idle_below_pct=section.idle_below_pct,
        idle_after_s=section.idle_after_s,
        report_s=section.report_s,
    )


def url_of(settings: Settings) -> str:
    """Where a node's page is, "" if nobody is asked. A stack that runs exporters of its own writes the setting."""
    section = settings.telemetry
    if not section.enabled:
        return ""
    return section.url or (EXPORTER_URL if settings.kubernetes is not None else "")
