"""Declares what the scaler reads and writes. Loads little: a stack asks before it starts anything."""

from muster.bus.declaration import Declaration, QueryType
from muster.bus.settings import Settings
from muster.scaler.config import config_of
from muster.schemas import queries
from muster.schemas.registry import StreamRole

DECLARATION = Declaration(
    service="scaler",
    folds=(StreamRole.LOG,),
    queries=(QueryType("choices", queries.AskFleet, queries.ScaleAnswer),),
    withholds=True,
)


def check(settings: Settings) -> None:
    """Raises ScalingConfigError, which names the field, for settings that cannot be."""
    config_of(settings.scaling, settings.fabrics, settings.composer)
