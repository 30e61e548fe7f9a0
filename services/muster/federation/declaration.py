"""Declares the logs and queries of the federation. Imports little: a stack reads it before it starts services."""

from muster.bus.declaration import Declaration, QueryType
from muster.schemas import members
from muster.schemas.registry import StreamRole

DECLARATION = Declaration(
    service="federation",
    folds=(StreamRole.FED, StreamRole.FED_UP),
    queries=(
        QueryType("federation", members.AskFederation, members.FederationView),
        QueryType("routes", members.AskFederation, members.RoutesView),
        QueryType("routes-check", members.AskRoutesCheck, members.RoutesCheckAnswer),
        QueryType("assignment", members.AskAssignment, members.AssignmentView),
    ),
)
