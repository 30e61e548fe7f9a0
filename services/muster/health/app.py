"""Wiring only: the health core of one cluster under its settings, and the readings that it observes."""

from muster.bus.service import CoreService, Hosted
from muster.bus.settings import Settings
from muster.health.config import config_of
from muster.health.core.answers import answer_conditions
from muster.health.core.core import HealthCore
from muster.health.declaration import DECLARATION
from muster.health.metrics import HealthMetrics
from muster.health.sink import ReadingsSink
from muster.schemas.registry import StreamRole


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """The health service of one cluster."""
    config = config_of(settings)
    cluster, listens = settings.cluster, settings.health.enabled
    return (
        CoreService(
            declaration=DECLARATION,
            role=StreamRole.LOG,
            core=lambda: HealthCore(config),
            queries={"conditions": answer_conditions},
            sink=lambda: ReadingsSink(cluster, listens=listens, metrics=HealthMetrics(cluster)),
        ),
    )
