"""Wiring only: what the federation folds, its routing rules, and the copier of the clusters' reports."""

from muster.bus.declaration import Declaration
from muster.bus.service import CoreService, Hosted
from muster.bus.settings import Settings
from muster.federation.copier import Copier
from muster.federation.core import FederationCore, Rule
from muster.schemas.registry import StreamRole

DECLARATION = Declaration(service="federation", folds=(StreamRole.FED, StreamRole.FED_UP))


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """The federation of all clusters; its one rule is the only cluster."""
    rules = (Rule(settings.cluster),)
    return (
        CoreService(
            declaration=DECLARATION,
            role=StreamRole.FED,
            core=lambda: FederationCore(rules=rules, checkpoint_every_facts=settings.scheduler.checkpoint_every_facts),
        ),
        Copier(DECLARATION),
    )
