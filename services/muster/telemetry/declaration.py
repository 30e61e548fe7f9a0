"""Declares what the telemetry service reads and writes. Loads little: a stack asks before it starts anything."""

from muster.bus.declaration import Declaration, QueryType
from muster.schemas.registry import StreamRole
from muster.schemas.usage import AskEnergy, AskIdle, AskJobUse, AskTop, Energy, Idle, JobUse, Top

DECLARATION = Declaration(
    service="telemetry",
    folds=(StreamRole.LOG,),
    publishes=("telemetry.{cluster}.*",),
    queries=(
        QueryType("job-use", AskJobUse, JobUse),
        QueryType("top", AskTop, Top),
        QueryType("idle", AskIdle, Idle),
        QueryType("energy", AskEnergy, Energy),
    ),
)
