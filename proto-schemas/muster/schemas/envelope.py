"""CloudEvents 1.0 in NATS binary mode: attributes as `ce-*` headers, the body is the data.

`ce-id` equals `Nats-Msg-Id`. `traceparent` is the W3C trace context of the job, with the fact's own span. Extension
`ce-causes`: ids of the facts that led to this one, joined by commas.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.schemas.base import CAUSES_MAX
from muster.schemas.registry import FactType

HEADER_ID = "ce-id"
HEADER_TYPE = "ce-type"
HEADER_SOURCE = "ce-source"
HEADER_CAUSES = "ce-causes"
HEADER_TRACE = "traceparent"
HEADER_MSG_ID = "Nats-Msg-Id"
HEADER_SPEC = "ce-specversion"


@dataclass(frozen=True, slots=True)
class Envelope:
    """The headers of a fact."""

    id: str
    ce_type: str
    source: str
    causes: tuple[str, ...]
    trace: str


def source(scope: str, writer: str) -> str:
    """Return the CloudEvents source of a writer in a cluster (or `fed`)."""
    return f"/muster/{scope}/{writer}"


def headers(row: FactType, *, id: str, scope: str, writer: str, causes: tuple[str, ...], trace: str) -> dict[str, str]:  # noqa: A002 - the CloudEvents name
    """Return the headers of one fact. Causes beyond the limit are left out, newest kept."""
    fields = {
        HEADER_SPEC: "1.0",
        HEADER_ID: id,
        HEADER_TYPE: row.ce_type,
        HEADER_SOURCE: source(scope, writer),
        HEADER_MSG_ID: id,
    }
    if causes:
        fields[HEADER_CAUSES] = ",".join(causes[-CAUSES_MAX:])
    if trace:
        fields[HEADER_TRACE] = trace
    return fields


def read(fields: Mapping[str, str] | None) -> Envelope | None:
    """Return the envelope of a message; None if it has none (then no Muster service wrote it)."""
    if not fields or HEADER_ID not in fields or HEADER_TYPE not in fields or HEADER_SOURCE not in fields:
        return None
    causes = fields.get(HEADER_CAUSES)
    return Envelope(
        fields[HEADER_ID],
        fields[HEADER_TYPE],
        fields[HEADER_SOURCE],
        tuple(causes.split(",")) if causes else (),
        fields.get(HEADER_TRACE, ""),
    )
