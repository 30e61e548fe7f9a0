"""Wiring only: the health core of one cluster."""

from muster.bus.declaration import Declaration
from muster.bus.service import CoreService, Hosted
from muster.bus.settings import Settings
from muster.health.core.core import HealthCore
from muster.schemas.registry import StreamRole

DECLARATION = Declaration(
    service="health", folds=(StreamRole.LOG,), subscribes=("telemetry.{cluster}.*",), withholds=True
)


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:  # noqa: ARG001 - every service is wired so
    """The health service of one cluster."""
    return (CoreService(declaration=DECLARATION, role=StreamRole.LOG, core=HealthCore),)
