"""Wiring only: the health core of one cluster, and the readings that it looks at."""

from muster.bus.service import CoreService, Hosted
from muster.bus.settings import Settings
from muster.health.core.answers import answer_conditions
from muster.health.core.core import HealthCore
from muster.health.declaration import DECLARATION
from muster.health.metrics import HealthMetrics
from muster.health.sink import ReadingsSink
from muster.health.wiring import config_of
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
