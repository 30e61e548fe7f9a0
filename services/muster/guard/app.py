"""Wiring only: the guard's core over what the API servers show."""

from muster.bus.declaration import Declaration
from muster.bus.service import CoreService, Hosted
from muster.bus.settings import Settings
from muster.guard.core import GuardCore
from muster.guard.core.config import GuardConfig, Kind, Subjects
from muster.guard.core.servers import NoServers
from muster.schemas.registry import StreamRole

DECLARATION = Declaration(service="guard", folds=(StreamRole.LOG,))


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """The guard of one cluster, also of a simulated one: checkpoints wait for its part."""
    config = config_of(settings)
    return (CoreService(declaration=DECLARATION, role=StreamRole.LOG, core=lambda: GuardCore(NoServers(), config)),)


def config_of(settings: Settings) -> GuardConfig:
    """The guard's part of the settings."""
    guard = settings.guard
    return GuardConfig(
        kinds=tuple(Kind(kind.resource, kind.group, kind.seats) for kind in guard.kinds),
        subjects=Subjects(guard.subjects),
        apply=guard.apply,
        skew_ratio=guard.skew_ratio,
        lists_per_minute=guard.lists_per_minute,
        secrets_per_workload=guard.secrets_per_workload,
    )
