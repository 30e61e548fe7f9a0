"""Wiring only: what the upgrader folds, under which settings."""

from muster.bus.declaration import Declaration
from muster.bus.service import CoreService, Hosted
from muster.bus.settings import Settings
from muster.schemas.registry import StreamRole
from muster.upgrader.config import config_of
from muster.upgrader.core import UpgraderCore

DECLARATION = Declaration(service="upgrader", folds=(StreamRole.LOG,), withholds=True)


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """The upgrader of one cluster."""
    config = config_of(settings.upgrades, settings.preflight)
    return (CoreService(declaration=DECLARATION, role=StreamRole.LOG, core=lambda: UpgraderCore(config)),)
