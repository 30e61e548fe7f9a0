"""Who may do what on the bus: rights derived from the table of facts and from what each service declares. Pure.

Rights are allow lists, enumerated per user. Nobody may publish `$JS.>`: whoever may use a JetStream administration
subject administers every stream. Each user has an inbox of its own, so nobody reads another's answers; a connection
therefore sets `inbox_prefix(user)`. The queries, the live view and every credential have an account of their own,
beside the one with the streams, because whoever may choose a reply subject can otherwise have the broker write facts
(`bus.own_account`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

from muster.bus.declaration import Declaration
from muster.bus.names import (
    API,
    CHECKPOINTS_BUCKET,
    LEASES_BUCKET,
    WORKLOADS_CONSUMER,
    bucket_stream,
    copied_checkpoints,
    output_stream,
    store_stream,
    telemetry_stream,
    webhook_consumer,
)
from muster.schemas.access import TOKENS_BUCKET
from muster.schemas.live import FED_CLUSTER, PUBLIC_AUDIENCE
from muster.schemas.registry import SERVICES, FactType, StreamRole, written_by
from muster.schemas.subjects import (
    DEAD_STREAM,
    FED_LOG,
    FED_UP_LOG,
    FENCE,
    NO_CLUSTER,
    LogName,
    cluster_log,
    fact_subject,
    fence_subject,
    query_subject,
)

BOOTSTRAP = "bootstrap"
READER = "reader"
MONITOR = "monitor"
LEASE = "lease"
OPERATOR = "operator"
ADMIN_TOOLS = "admin-tools"
GATEWAY = "gateway"
GATEWAY_QUERY = "gateway-query"
GATEWAY_LIVE = "gateway-live"
VIEW_KEY = "{view}"
"""Stands in rights for the public key of account VIEW, which is known when credentials are minted."""
NOTIFIER = "notifier"

SOURCED_WRITER = "federation"
"""Its facts come into a cluster's log from FED, by sourcing; it appends none there itself."""

KICKS = "$SYS.REQ.SERVER.*.KICK"
"""Where a server of the broker is asked to close a connection; a subject cannot say of which account."""

_WITHHOLD = frozenset({"withhold-requested", "withhold-withdrawn"})


class AccountName(StrEnum):
    """The accounts: subjects of one are unknown in another unless exported and imported.

    SYS: the broker's own; who is in it learns of connections and closes them. LOG: with the streams; no user is in it.
    OWN: one for every credential that works with them. CELL: of a centre, one for every cell.
    """

    SYS = "SYS"
    LOG = "LOG"
    QUERY = "QUERY"
    VIEW = "VIEW"
    OWN = "OWN"
    CELL = "CELL"


@dataclass(frozen=True, slots=True)
class Rights:
    """Subjects that a user may publish to and subscribe to; nothing else. Wildcards as in NATS.

    withheld: what it may not publish to although `publish` says so.
    """

    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()

    def __add__(self, other: "Rights") -> "Rights":
        """Both together, each subject once."""
        return Rights(
            tuple(dict.fromkeys((*self.publish, *other.publish))),
            tuple(dict.fromkeys((*self.subscribe, *other.subscribe))),
            tuple(dict.fromkeys((*self.withheld, *other.withheld))),
        )


@dataclass(frozen=True, slots=True)
class BusUser:
    """One NATS user: `<credentials_dir>/<name>.creds` is what it connects with.

    cell: the cluster whose broker joins by it, "" for all others; its account is that cell's. Such credentials are good
    beyond the next start, until the user is gone. They say who it is alone: what it may do is what the broker's newest
    start says.
    """

    name: str
    account: AccountName
    rights: Rights
    cell: str = ""


def view_connects(account: str) -> str:
    """Where the broker tells each connection that opens in account VIEW. account: its public key."""
    return f"$SYS.ACCOUNT.{account}.CONNECT"


def inbox_prefix(user: str) -> str:
    """Where alone `user` may receive replies; pass it to every connection (`nats.connect(inbox_prefix=...)`)."""
    return f"_INBOX.{user}"


def bus_users(
    declarations: Iterable[Declaration],
    *,
    clusters: Sequence[str],
    copies: bool = False,
    webhooks: Sequence[str] = (),
) -> tuple[BusUser, ...]:
    """Every user of a stack. Raises ValueError if two declarations are of one service, or none is the gateway's own.

    clusters: names of the clusters whose logs this bus holds. copies: it has them from the clusters' own brokers.
    webhooks: names of those whose consumers are the notifier's alone.
    """
    declared = tuple(declarations)
    names = [declaration.service for declaration in declared]
    if len(set(names)) != len(names):
        raise ValueError(f"services {sorted(names)}: one is declared twice; each service has one declaration")
    shared = (
        (BOOTSTRAP, AccountName.OWN, _bootstrap_rights(declared, clusters, copies=copies)),
        (READER, AccountName.OWN, _reader_rights(clusters)),
        (MONITOR, AccountName.OWN, _monitor_rights(clusters)),
        (LEASE, AccountName.OWN, _bucket(LEASES_BUCKET, written=True)),
        (OPERATOR, AccountName.OWN, Rights(publish=(*_voided_subjects(clusters), *_fences(clusters)))),
        (ADMIN_TOOLS, AccountName.OWN, _admin_tools_rights(clusters)),
        (GATEWAY_QUERY, AccountName.QUERY, Rights(publish=("query.>",))),
        (GATEWAY_LIVE, AccountName.SYS, Rights(publish=(KICKS,), subscribe=(view_connects(VIEW_KEY),))),
    )
    services = (
        (declaration.service, AccountName.OWN, _of_service(declaration, clusters, copies=copies))
        for declaration in declared
    )
    owned = {GATEWAY: (WORKLOADS_CONSUMER,), NOTIFIER: tuple(map(webhook_consumer, webhooks))}
    return tuple(
        BusUser(name, account, rights + _own_inbox(name) + _others_consumers(name, owned))
        for name, account, rights in (*shared, *services)
    )


def _others_consumers(user: str, owned: Mapping[str, Sequence[str]]) -> Rights:
    """Consumers with a name that everybody knows: nobody but the service that they are of may make, change, read,
    acknowledge or delete them, on any stream.
    """
    names = [name for owner, of_owner in owned.items() if owner != user for name in of_owner]
    consumer = f"{API}.CONSUMER"
    withheld = (
        (
            f"{consumer}.CREATE.*.{name}",
            f"{consumer}.CREATE.*.{name}.>",
            f"{consumer}.DELETE.*.{name}",
            f"{consumer}.MSG.NEXT.*.{name}",
            f"$JS.ACK.*.{name}.>",
        )
        for name in names
    )
    return Rights(withheld=tuple(chain.from_iterable(withheld)))


def _of_service(declaration: Declaration, clusters: Sequence[str], *, copies: bool) -> Rights:
    rights = service_rights(declaration, clusters=clusters)
    return rights + _copies_used(declaration, clusters) if copies else rights


def service_rights(declaration: Declaration, *, clusters: Sequence[str]) -> Rights:
    """What one service may do: its own facts and fences, reading the logs it folds, checkpoints, its questions."""
    service = declaration.service
    logs = [log for role in declaration.folds for log in logs_of(role, clusters)]
    rights = Rights(publish=_fact_subjects(declaration, clusters))
    for log in logs:
        read = _stream_read if log.role is StreamRole.FED_UP else _stream_looked_up  # logs are read as `reader`
        rights += read(log.stream)
    if StreamRole.FED_UP in declaration.folds:  # who copies the reports makes room for more
        rights += Rights(publish=(f"{API}.STREAM.PURGE.{FED_UP_LOG.stream}",))
    if logs:
        rights += Rights(publish=("dead.>",)) + _checkpoints(written=True)
    for template in declaration.publishes:
        rights += Rights(publish=tuple(template.replace("{cluster}", cluster) for cluster in clusters))
    for template in declaration.subscribes:
        rights += Rights(subscribe=tuple(template.replace("{cluster}", cluster) for cluster in clusters))
    for template in declaration.reads:
        for stream in dict.fromkeys(template.replace("{cluster}", cluster) for cluster in clusters):
            rights += _stream_read(stream)
    for log in (log for role in declaration.consumes for log in logs_of(role, clusters)):
        rights += _stream_read(log.stream) + Rights(publish=(f"$JS.ACK.{log.stream}.>",))
    for bucket in dict.fromkeys((*declaration.buckets, *declaration.buckets_written)):
        rights += _bucket(bucket, written=bucket in declaration.buckets_written)
    if declaration.queries:
        asked = (query_subject(cluster, service, query.name) for cluster in clusters for query in declaration.queries)
        rights += Rights(publish=("_R_.>", "_INBOX.>"), subscribe=tuple(asked))
    if service == GATEWAY:  # it looks up `submitted` of one job; it may not walk the log with a consumer
        rights += Rights(publish=(f"{API}.STREAM.INFO.{FED_LOG.stream}", f"{API}.STREAM.MSG.GET.{FED_LOG.stream}"))
        rights += _bucket(TOKENS_BUCKET, written=False)
    return rights


def _copies_used(declaration: Declaration, clusters: Sequence[str]) -> Rights:
    """Who copies the reports trims what they come from; who folds a copy begins with its original's checkpoints."""
    if StreamRole.FED_UP in declaration.folds:
        return _copies_trimmed(clusters)
    return _copied_checkpoints(clusters) if StreamRole.LOG in declaration.folds else Rights()


def _copied_checkpoints(clusters: Sequence[str]) -> Rights:
    """Reading the copies of clusters' checkpoints, single messages from the leader alone."""
    streams = map(copied_checkpoints, clusters)
    return Rights(publish=tuple(f"{API}.STREAM.{verb}.{stream}" for stream in streams for verb in ("INFO", "MSG.GET")))


def _copies_trimmed(clusters: Sequence[str]) -> Rights:
    """Forgetting the beginning of the copies of logs: how far checkpoints and consumers are, and the purge."""
    verbs = ("STREAM.INFO", "STREAM.MSG.GET", "STREAM.PURGE", "CONSUMER.LIST")
    logs = (cluster_log(cluster).stream for cluster in clusters)
    return _copied_checkpoints(clusters) + Rights(
        publish=tuple(f"{API}.{verb}.{stream}" for stream in logs for verb in verbs)
    )


def view_rights(*, clusters: Sequence[str], teams: Sequence[str], inbox: str) -> Rights:
    """What a dashboard may see: what is public and what its teams may see, in those clusters and of the federation.

    It publishes nothing.
    """
    audiences = (*teams, PUBLIC_AUDIENCE)
    seen = tuple(f"view.{cluster}.{audience}.>" for cluster in (*clusters, FED_CLUSTER) for audience in audiences)
    return Rights(subscribe=(*seen, f"{inbox}.>"))


def logs_of(role: StreamRole, clusters: Sequence[str]) -> tuple[LogName, ...]:
    """The logs of a role on this bus."""
    match role:
        case StreamRole.LOG:
            return tuple(map(cluster_log, clusters))
        case StreamRole.FED:
            return (FED_LOG,)
        case StreamRole.FED_UP:
            return (FED_UP_LOG,)


def all_streams(clusters: Sequence[str]) -> tuple[str, ...]:
    """Every stream that bootstrap makes for these clusters, buckets left out."""
    named = ((cluster_log(name).stream, telemetry_stream(name), output_stream(name)) for name in clusters)
    return (FED_LOG.stream, FED_UP_LOG.stream, DEAD_STREAM, *chain.from_iterable(named))


def _own_inbox(user: str) -> Rights:
    return Rights(subscribe=(f"{inbox_prefix(user)}.>",))


def _fact_subjects(declaration: Declaration, clusters: Sequence[str]) -> tuple[str, ...]:
    """Patterns of the facts that a service appends itself, fences included."""
    service = declaration.service
    subjects: list[str] = []
    for row in written_by(service):
        own = row.writer == service
        if row.stream is StreamRole.LOG and service == SOURCED_WRITER:
            continue
        if not own and (row.stream not in declaration.folds or (row.name in _WITHHOLD and not declaration.withholds)):
            continue
        for log in logs_of(row.stream, clusters):
            subjects += _row_subjects(row, log, service=service, clusters=clusters)
    return tuple(dict.fromkeys(subjects))


def _row_subjects(row: FactType, log: LogName, *, service: str, clusters: Sequence[str]) -> list[str]:
    if row.name == FENCE:
        return [fence_subject(log, service)]
    addressed = (NO_CLUSTER, *clusters) if log.role is StreamRole.FED else ("",)
    return [
        fact_subject(log, writer=service, kind=row.kind, subject_id="*", name=row.name, cluster=cluster)
        for cluster in addressed
    ]


def _voided_subjects(clusters: Sequence[str]) -> tuple[str, ...]:
    logs = (FED_LOG, *map(cluster_log, clusters))
    return tuple(fact_subject(log, writer=OPERATOR, kind="log", subject_id="*", name="voided") for log in logs)


def _fences(clusters: Sequence[str]) -> tuple[str, ...]:
    """Those that an operator may repair: every service's, one by one."""
    logs = (FED_LOG, *map(cluster_log, clusters))
    return tuple(fence_subject(log, service) for log in logs for service in SERVICES)


def _stream_read(stream: str) -> Rights:
    """Reading one stream: its state, single messages from the leader, and pull consumers.

    A consumer is named in the subject of its request. Whoever cannot name one cannot touch it: those without a fixed
    name have one that nobody can guess, and only `monitor` may list them.

    No direct gets: they answer with the stored message's own headers on a subject of the asker's choice, so what
    somebody stored anywhere would pass for a fact. A consumer delivers under the subject that a message was stored
    with, and the other answers carry no headers. So no stream here needs `allow_direct`.
    """
    consumer = f"{API}.CONSUMER"
    return Rights(
        publish=(
            f"{API}.STREAM.INFO.{stream}",
            f"{API}.STREAM.MSG.GET.{stream}",
            f"{consumer}.CREATE.{stream}.>",
            *(f"{consumer}.{verb}.{stream}.*" for verb in ("INFO", "DELETE", "MSG.NEXT")),
        )
    )


def _stream_looked_up(stream: str) -> Rights:
    """A stream's state, and single messages from its leader. Who writes facts has nothing delivered from where they
    stand: a delivery has the subject and the headers of what was stored.
    """
    return Rights(publish=(f"{API}.STREAM.INFO.{stream}", f"{API}.STREAM.MSG.GET.{stream}"))


def _bucket(bucket: str, *, written: bool) -> Rights:
    """A KV bucket: watching its keys, and single keys from the leader."""
    stream = bucket_stream(bucket)
    rights = _stream_read(stream)
    return rights + Rights(publish=(f"$KV.{bucket}.>",)) if written else rights


def _checkpoints(*, written: bool) -> Rights:
    """The object store of checkpoints. The client purges an object's chunks when it replaces or deletes it."""
    stream = store_stream(CHECKPOINTS_BUCKET)
    rights = _stream_looked_up(stream)
    if not written:
        return rights
    return rights + Rights(
        publish=(f"$O.{CHECKPOINTS_BUCKET}.C.*", f"$O.{CHECKPOINTS_BUCKET}.M.*", f"{API}.STREAM.PURGE.{stream}")
    )


def _reader_rights(clusters: Sequence[str]) -> Rights:
    """Reading logs, and burying what is no fact."""
    rights = Rights(publish=("dead.>",)) + _checkpoints(written=False)
    for role in StreamRole:
        for log in logs_of(role, clusters):
            rights += _stream_read(log.stream)
    return rights


def _monitor_rights(clusters: Sequence[str]) -> Rights:
    """How full every stream is and how far its consumers are, for the metrics."""
    looked_at = (
        f"{API}.{verb}.{stream}" for stream in all_streams(clusters) for verb in ("STREAM.INFO", "CONSUMER.LIST")
    )
    return Rights(publish=tuple(looked_at))


def _bootstrap_rights(declared: Sequence[Declaration], clusters: Sequence[str], *, copies: bool) -> Rights:
    """Making and correcting exactly the streams and buckets of this stack, and entering tokens."""
    buckets = dict.fromkeys(
        (LEASES_BUCKET, TOKENS_BUCKET, *(b for d in declared for b in (*d.buckets, *d.buckets_written)))
    )
    copied = map(copied_checkpoints, clusters) if copies else ()
    streams = (*all_streams(clusters), *copied, *map(bucket_stream, buckets), store_stream(CHECKPOINTS_BUCKET))
    verbs = ("CREATE", "UPDATE", "INFO")
    made = tuple(f"{API}.STREAM.{verb}.{stream}" for stream in streams for verb in verbs)
    return Rights(publish=(f"{API}.INFO", f"{API}.STREAM.NAMES", f"{API}.STREAM.LIST", *made)) + _bucket(
        TOKENS_BUCKET, written=True
    )


def _admin_tools_rights(clusters: Sequence[str]) -> Rights:
    """Export (reads), import (writes facts as they were, so of every writer) and trim (purge of the logs alone).

    An import lets a log's sources go and takes them up again where the archive ends, hence the update.
    """
    rights = _reader_rights(clusters)
    for log in (FED_LOG, *map(cluster_log, clusters)):
        verbs = (f"{API}.STREAM.{verb}.{log.stream}" for verb in ("PURGE", "UPDATE"))
        rights += Rights(publish=(log.subjects, *verbs))
    rights += _stream_read(DEAD_STREAM)
    for cluster in clusters:
        rights += _stream_read(telemetry_stream(cluster)) + _stream_read(output_stream(cluster))
    return rights
