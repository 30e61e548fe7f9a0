"""Declares what the agent reads and writes. Loads little: a stack asks before it starts anything."""

from muster.bus.declaration import Declaration
from muster.schemas.registry import StreamRole

DECLARATION = Declaration(
    service="agent",
    folds=(StreamRole.LOG,),
    publishes=("logs.{cluster}.*",),
    withholds=True,  # nodes that somebody closed in Kubernetes
)
