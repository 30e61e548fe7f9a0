"""Declares what the agent reads and writes. Imports little, because a stack loads it before anything starts."""

from muster.bus.declaration import Declaration
from muster.schemas.registry import StreamRole

DECLARATION = Declaration(
    service="agent",
    folds=(StreamRole.LOG,),
    publishes=("logs.{cluster}.*",),
    withholds=True,  # nodes cordoned in Kubernetes
)
