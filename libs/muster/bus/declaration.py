"""The declaration of a service; its NATS rights and AsyncAPI document derive from it and the table of facts."""

from dataclasses import dataclass, field

from muster.schemas.base import Wire
from muster.schemas.registry import FactType, StreamRole


@dataclass(frozen=True, slots=True)
class QueryType:
    """A query that a service answers on `query.<cluster>.<service>.<name>`."""

    name: str
    request: type[Wire]
    answer: type[Wire]


@dataclass(frozen=True, slots=True)
class Declaration:
    """One service. The facts that it writes are in the table of facts (`registry.written_by`), not here.

    folds: the logs that its cores fold. queries: the queries that it answers. publishes: subject templates outside the
    logs, with `{cluster}` and `*` ("telemetry.{cluster}.*"). subscribes: the same for its subscriptions without
    JetStream. reads: streams outside the logs that it reads ("LOGS_{cluster}"). consumes: logs on which it keeps
    durable consumers with acknowledgements, without folding; consumed: the facts that it takes there, for the
    documents. buckets: KV buckets that it uses beside the leases, read-only unless in `buckets_written`. withholds: it
    may append `withhold-requested` and `withhold-withdrawn` for a node or device.
    """

    service: str
    folds: tuple[StreamRole, ...] = ()
    queries: tuple[QueryType, ...] = ()
    publishes: tuple[str, ...] = ()
    subscribes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    consumes: tuple[StreamRole, ...] = ()
    consumed: tuple[FactType, ...] = ()
    buckets: tuple[str, ...] = ()
    buckets_written: tuple[str, ...] = field(default=())
    withholds: bool = False
