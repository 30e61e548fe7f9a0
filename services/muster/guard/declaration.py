"""Declares what the guard reads and writes. Imports little, because a stack loads it before anything starts."""

from muster.bus.declaration import Declaration, QueryType
from muster.schemas.apiserver import ApiServerReport, AskReport
from muster.schemas.registry import StreamRole

DECLARATION = Declaration(
    service="guard", folds=(StreamRole.LOG,), queries=(QueryType("report", AskReport, ApiServerReport),)
)
