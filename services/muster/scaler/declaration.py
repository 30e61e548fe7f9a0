"""Declares what the scaler reads and writes. Imports little, because a stack reads it before any service starts."""

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
    """Check the settings. Raise ScalingConfigError, which names the field, if they are invalid."""
    config_of(settings.scaling, settings.fabrics, settings.composer)
