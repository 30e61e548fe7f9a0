"""Wiring only: the telemetry service's core over the exporters of one cluster."""

from muster.bus.declaration import Declaration
from muster.bus.service import CoreService, Hosted
from muster.bus.settings import Settings
from muster.schemas.registry import StreamRole
from muster.telemetry.core.core import TelemetryCore
from muster.telemetry.core.meters import NoMeters

DECLARATION = Declaration(
    service="telemetry",
    folds=(StreamRole.LOG,),
    publishes=("telemetry.{cluster}.*",),
)


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:  # noqa: ARG001 - the same shape for every service
    """The telemetry service of one cluster."""
    return (CoreService(declaration=DECLARATION, role=StreamRole.LOG, core=lambda: TelemetryCore(NoMeters())),)
