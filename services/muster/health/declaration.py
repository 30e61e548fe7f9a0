"""Declares what the health service reads and writes. Loads little: a stack asks before it starts anything."""

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
    """Whether it can work with these settings. Raises ValueError that says why not."""
    config_of(settings)
