"""Declares what the composer reads and writes. Imports little, because a stack loads it before anything starts."""

from muster.bus.declaration import Declaration, QueryType
from muster.schemas import queries
from muster.schemas.registry import StreamRole

DECLARATION = Declaration(
    service="composer",
    folds=(StreamRole.LOG,),
    queries=(
        QueryType("devices", queries.AskFleet, queries.DevicesAnswer),
        QueryType("requests", queries.AskFleet, queries.RequestsAnswer),
        QueryType("compose-check", queries.AskCompose, queries.DeviceCheckAnswer),
        QueryType("detach-check", queries.AskDetach, queries.DeviceCheckAnswer),
    ),
    withholds=True,
)
