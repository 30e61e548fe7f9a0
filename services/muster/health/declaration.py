"""Declares what health reads and writes. Imports little, because a stack loads it before anything starts."""

from muster.bus.declaration import Declaration, QueryType
from muster.bus.settings import Settings
from muster.health.config import config_of
from muster.schemas.conditions import AskConditions, ConditionsAnswer
from muster.schemas.registry import StreamRole

DECLARATION = Declaration(
    service="health",
    folds=(StreamRole.LOG,),
    queries=(QueryType("conditions", AskConditions, ConditionsAnswer),),
    subscribes=("telemetry.{cluster}.*",),
    withholds=True,
)


def check(settings: Settings) -> None:
    """Raise ValueError, with the reason, if health cannot work with these settings."""
    config_of(settings)
