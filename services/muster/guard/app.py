"""Wiring only: the guard's core over what the API servers show."""

from muster.bus.declaration import Declaration
from muster.bus.service import CoreService, Hosted
from muster.bus.settings import Settings
from muster.guard.core import GuardCore
from muster.schemas.registry import StreamRole

DECLARATION = Declaration(service="guard", folds=(StreamRole.LOG,))


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:  # noqa: ARG001 - as every service
    """The guard of one cluster, also of a simulated one: checkpoints wait for its part."""
    return (CoreService(declaration=DECLARATION, role=StreamRole.LOG, core=GuardCore),)
