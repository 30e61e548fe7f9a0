"""Declares the streams and buckets of the gateway. Imports little: a stack reads it before it starts services."""

from muster.bus.declaration import Declaration
from muster.schemas.access import TOKENS_BUCKET
from muster.schemas.registry import LOG, FactType, StreamRole, fact_type


def _row(name: str) -> FactType:
    row = fact_type(LOG, "agent", "workload", name)
    assert row is not None, f"workload {name} stands in the table of facts"
    return row


DECLARATION = Declaration(
    service="gateway",
    reads=("TELEMETRY_{cluster}", "LOGS_{cluster}"),
    buckets=(TOKENS_BUCKET,),
    buckets_written=(TOKENS_BUCKET,),
    consumes=(StreamRole.LOG,),
    consumed=tuple(_row(name) for name in ("submit-requested", "cancel-requested")),
)
