"""Permissions on the bus, derived from the table of facts and from the declarations of the services. Pure.

Permissions are allow lists, enumerated per user. No user may publish `$JS.>`: a user of a JetStream administration
subject administers every stream. Each user has its own inbox, so no user reads another user's answers; a connection
therefore sets `inbox_prefix(user)`. The queries, the live view and every credential have their own account, separate
from the account with the streams, because a client that may choose a reply subject can otherwise make the broker write
facts (`bus.own_account`).
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
"""Subject on which a server closes a connection; it does not name the connection's account."""

_WITHHOLD = frozenset({"withhold-requested", "withhold-withdrawn"})


class AccountName(StrEnum):
    """NATS accounts: subjects of one are unknown in another unless exported and imported.

    SYS: of the broker; its users see connections and close them. LOG: has the streams and no users. OWN: one for every
    credential that uses the streams. CELL: in a center, one for every cell.
    """

    SYS = "SYS"
    LOG = "LOG"
    QUERY = "QUERY"
    VIEW = "VIEW"
    OWN = "OWN"
    CELL = "CELL"


@dataclass(frozen=True, slots=True)
class Rights:
    """Subjects that a user may publish to and subscribe to; all others are denied. Wildcards as in NATS.

    withheld: subjects that the user may not publish to although `publish` allows them.
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
    """One NATS user, which connects with `<credentials_dir>/<name>.creds`.

    cell: the cluster whose broker joins with these credentials, "" for all others; its account is that cell's. Such
    credentials stay valid after a restart, until the user is removed. They hold only the identity: the broker's
    configuration of the current start has the permissions.
    """

    name: str
    account: AccountName
    rights: Rights
    cell: str = ""


def view_connects(account: str) -> str:
    """Return the subject on which the broker reports each new connection in account VIEW. account: its public key."""
    return f"$SYS.ACCOUNT.{account}.CONNECT"


def inbox_prefix(user: str) -> str:
    """Return the only subject prefix for replies to `user`; pass it to `nats.connect(inbox_prefix=...)`."""
    return f"_INBOX.{user}"


def bus_users(
    declarations: Iterable[Declaration],
    *,
    clusters: Sequence[str],
    copies: bool = False,
    webhooks: Sequence[str] = (),
) -> tuple[BusUser, ...]:
    """Return every user of a stack. Raises ValueError for two declarations of one service, or none of the gateway.

    clusters: names of the clusters whose logs this bus holds. copies: it has copies of the logs of the clusters' own
    brokers. webhooks: names of the webhooks, whose consumers only the notifier uses.
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
    """Return the denial of consumers with fixed names: on any stream, only their own service may create, change, read,
    acknowledge or delete them."""
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
    """Return the rights of one service: its own facts and fences, logs to fold, checkpoints, its queries."""
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
    """Return the permissions to trim copied logs if it copies reports, and to use checkpoints of the logs it folds."""
    if StreamRole.FED_UP in declaration.folds:
        return _copies_trimmed(clusters)
    return _copied_checkpoints(clusters) if StreamRole.LOG in declaration.folds else Rights()


def _copied_checkpoints(clusters: Sequence[str]) -> Rights:
    """Return the permission to read the copies of clusters' checkpoints, as single messages from the leader only."""
    streams = map(copied_checkpoints, clusters)
    return Rights(publish=tuple(f"{API}.STREAM.{verb}.{stream}" for stream in streams for verb in ("INFO", "MSG.GET")))


def _copies_trimmed(clusters: Sequence[str]) -> Rights:
    """Return the permissions to trim copies of logs: read the positions of checkpoints and consumers, and purge."""
    verbs = ("STREAM.INFO", "STREAM.MSG.GET", "STREAM.PURGE", "CONSUMER.LIST")
    logs = (cluster_log(cluster).stream for cluster in clusters)
    return _copied_checkpoints(clusters) + Rights(
        publish=tuple(f"{API}.{verb}.{stream}" for stream in logs for verb in verbs)
    )


def view_rights(*, clusters: Sequence[str], teams: Sequence[str], inbox: str) -> Rights:
    """Return the rights of a dashboard: subscribe to public rows and those of its teams, here and in the federation.

    It may not publish.
    """
    audiences = (*teams, PUBLIC_AUDIENCE)
    seen = tuple(f"view.{cluster}.{audience}.>" for cluster in (*clusters, FED_CLUSTER) for audience in audiences)
    return Rights(subscribe=(*seen, f"{inbox}.>"))


def logs_of(role: StreamRole, clusters: Sequence[str]) -> tuple[LogName, ...]:
    """Return the logs of a role on this bus."""
    match role:
        case StreamRole.LOG:
            return tuple(map(cluster_log, clusters))
        case StreamRole.FED:
            return (FED_LOG,)
        case StreamRole.FED_UP:
            return (FED_UP_LOG,)


def all_streams(clusters: Sequence[str]) -> tuple[str, ...]:
    """Return every stream that bootstrap creates for these clusters, without buckets."""
    named = ((cluster_log(name).stream, telemetry_stream(name), output_stream(name)) for name in clusters)
    return (FED_LOG.stream, FED_UP_LOG.stream, DEAD_STREAM, *chain.from_iterable(named))


def _own_inbox(user: str) -> Rights:
    return Rights(subscribe=(f"{inbox_prefix(user)}.>",))


def _fact_subjects(declaration: Declaration, clusters: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns of the facts that a service appends itself, including fences."""
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
    """Return the fences that an operator may repair: those of every service, listed one by one."""
    logs = (FED_LOG, *map(cluster_log, clusters))
    return tuple(fence_subject(log, service) for log in logs for service in SERVICES)


def _stream_read(stream: str) -> Rights:
    """Return the permissions to read one stream: its state, single messages from the leader, and pull consumers.

    A request names its consumer in the subject, so a user can only touch consumers whose names it knows: other
    consumers have names that cannot be guessed, and only `monitor` may list them.

    Direct gets are not allowed: they answer with the stored message's own headers on a subject that the client chooses,
    so any stored message would pass for a fact. A consumer delivers under the subject that a message was stored with,
    and the other answers carry no headers. So no stream here needs `allow_direct`.
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
    """Return the permissions to read a stream's state and single messages from its leader. A writer of facts gets no
    deliveries: a delivery has the subject and the headers of the stored message."""
    return Rights(publish=(f"{API}.STREAM.INFO.{stream}", f"{API}.STREAM.MSG.GET.{stream}"))


def _bucket(bucket: str, *, written: bool) -> Rights:
    """Return the permissions of a KV bucket: watch its keys, and get single keys from the leader."""
    stream = bucket_stream(bucket)
    rights = _stream_read(stream)
    return rights + Rights(publish=(f"$KV.{bucket}.>",)) if written else rights


def _checkpoints(*, written: bool) -> Rights:
    """Return the rights to the checkpoint store. Clients purge an object's chunks when they replace or delete it."""
    stream = store_stream(CHECKPOINTS_BUCKET)
    rights = _stream_looked_up(stream)
    if not written:
        return rights
    return rights + Rights(
        publish=(f"$O.{CHECKPOINTS_BUCKET}.C.*", f"$O.{CHECKPOINTS_BUCKET}.M.*", f"{API}.STREAM.PURGE.{stream}")
    )


def _reader_rights(clusters: Sequence[str]) -> Rights:
    """Return the permissions to read logs, and to store dead letters."""
    rights = Rights(publish=("dead.>",)) + _checkpoints(written=False)
    for role in StreamRole:
        for log in logs_of(role, clusters):
            rights += _stream_read(log.stream)
    return rights


def _monitor_rights(clusters: Sequence[str]) -> Rights:
    """Return the permissions to read how full every stream is and how far its consumers are, for the metrics."""
    looked_at = (
        f"{API}.{verb}.{stream}" for stream in all_streams(clusters) for verb in ("STREAM.INFO", "CONSUMER.LIST")
    )
    return Rights(publish=tuple(looked_at))


def _bootstrap_rights(declared: Sequence[Declaration], clusters: Sequence[str], *, copies: bool) -> Rights:
    """Return the permissions to create and change exactly the streams and buckets of this stack, and to add tokens."""
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
    """Return the permissions to export, import (facts of every writer) and trim logs.

    An import removes a log's sources, and adds them again at the end of the archive; therefore it may update streams.
    """
    rights = _reader_rights(clusters)
    for log in (FED_LOG, *map(cluster_log, clusters)):
        verbs = (f"{API}.STREAM.{verb}.{log.stream}" for verb in ("PURGE", "UPDATE"))
        rights += Rights(publish=(log.subjects, *verbs))
    rights += _stream_read(DEAD_STREAM)
    for cluster in clusters:
        rights += _stream_read(telemetry_stream(cluster)) + _stream_read(output_stream(cluster))
    return rights
