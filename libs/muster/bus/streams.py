"""The streams of a stack, created by one bootstrap step at every start, with their limits and sources."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nats.aio.client import Client

from muster.bus import jsapi
from muster.bus.names import (
    CENTRE_DOMAIN,
    CHECKPOINTS_BUCKET,
    LEASES_BUCKET,
    addressed_to,
    api_of,
    bucket_stream,
    copied,
    copied_checkpoints,
    deliveries,
    output_stream,
    store_stream,
    telemetry_stream,
)
from muster.bus.ports import ApiError, StreamConflictError
from muster.bus.settings import BusSettings, Settings
from muster.core.instant import NS_PER_S
from muster.schemas.access import TOKENS_BUCKET
from muster.schemas.registry import TABLE, StreamRole
from muster.schemas.subjects import DEAD_STREAM, FED_LOG, FED_UP_LOG, cluster_log

DUPLICATE_WINDOW_S = 120
CREATE_ATTEMPTS_MAX, CREATE_PAUSE_S = 5, 0.2
"""Attempts to create a stream whose store the server cannot create, and the wait between them."""
DEAD_BYTES_MAX = 256 * 1024**2
TELEMETRY_AGE_S = 900
TELEMETRY_BYTES_MAX = 512 * 1024**2
OUTPUT_AGE_S = 3600
OUTPUT_BYTES_MAX = 256 * 1024**2
CHECKPOINT_BYTES_MAX = 4 * 1024**3
COPIED_CHECKPOINT_BYTES_MAX = 1024**3
"""Size limit of the copies of one cluster's checkpoints in a center; the oldest are dropped first."""
BUCKET_BYTES_MAX = 64 * 1024**2

_NO_EFFECT: tuple[object, ...] = (None, False, 0, -1, "", "none", {}, [])
"""Values that any release of the server fills in for an option that is not set."""
_OTHERS_MAY_SET = ("description", "metadata", "placement")
"""Notes, and which servers of a NATS cluster store the stream: neither copies nor changes a message."""
_LOG_PREFIX = cluster_log("").stream
_SOURCE_KEYS = frozenset({"name", "subject_transforms", "opt_start_seq"})

_logger = logging.getLogger(__name__)
Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """Configuration of one stream. sources: by name of the source stream, merged with existing sources."""

    name: str
    config: Mapping[str, object]
    sources: tuple[Mapping[str, object], ...] = ()


def plan(settings: Settings) -> tuple[StreamPlan, ...]:
    """Return every stream of this broker, sources before the streams that take from them."""
    bus, own = settings.bus, settings.cluster
    made: tuple[StreamPlan, ...]
    match settings.role:
        case "whole":
            made = (_fed(bus), _log(own, bus), _reports((own,), bus), *_beside(own))
        case "centre":
            copies = (copy for cluster in settings.clusters for copy in _copies(cluster, bus))
            made = (_fed(bus), *copies, _reports(settings.clusters, bus))
        case "cell":
            made = (_log(own, bus, fed_domain=CENTRE_DOMAIN), *_beside(own))
    streams = (
        *made,
        StreamPlan(DEAD_STREAM, _config(("dead.>",), bytes_max=DEAD_BYTES_MAX)),
        StreamPlan(bucket_stream(LEASES_BUCKET), _bucket(LEASES_BUCKET, ttl_s=bus.lease_ttl_s)),
        StreamPlan(bucket_stream(TOKENS_BUCKET), _bucket(TOKENS_BUCKET)),
        StreamPlan(store_stream(CHECKPOINTS_BUCKET), _object_store(CHECKPOINTS_BUCKET)),
    )
    return tuple(
        StreamPlan(stream.name, {**stream.config, "num_replicas": bus.replicas}, stream.sources) for stream in streams
    )


def _fed(bus: BusSettings) -> StreamPlan:
    return StreamPlan(FED_LOG.stream, _log_config(FED_LOG.subjects, bus.fed_bytes_max))


def _log(cluster: str, bus: BusSettings, *, fed_domain: str = "") -> StreamPlan:
    """Return a cluster's log, which takes its messages of FED. fed_domain: of another broker, if that has FED."""
    log = cluster_log(cluster)
    source = _source(FED_LOG.stream, _addressed_to(cluster))
    if fed_domain:
        source["external"] = _external(fed_domain, deliver=deliveries(cluster))
    return StreamPlan(log.stream, _log_config(log.subjects, bus.log_bytes_max), (source,))


def _reports(clusters: Sequence[str], bus: BusSettings) -> StreamPlan:
    """Return the stream of the clusters' reports to the federation, from their logs or copies on this broker."""
    config = {**_config((), bytes_max=bus.fed_bytes_max), "deny_delete": True}
    sources = tuple(_source(cluster_log(cluster).stream, _reported_by(cluster)) for cluster in clusters)
    return StreamPlan(FED_UP_LOG.stream, config, sources)


def _beside(cluster: str) -> tuple[StreamPlan, StreamPlan]:
    """Telemetry and output of a cluster."""
    output = _recent((f"logs.{cluster}.>",), bytes_max=OUTPUT_BYTES_MAX, age_s=OUTPUT_AGE_S)
    return _telemetry(cluster), StreamPlan(output_stream(cluster), output)


def _telemetry(cluster: str) -> StreamPlan:
    readings = _recent((f"telemetry.{cluster}.>",), bytes_max=TELEMETRY_BYTES_MAX, age_s=TELEMETRY_AGE_S)
    return StreamPlan(telemetry_stream(cluster), readings)


def _copies(cluster: str, bus: BusSettings) -> tuple[StreamPlan, ...]:
    """Return a center's copies of a cell: its log, message for message, its newest checkpoints, its output, and its
    live telemetry.

    A copy has its original's sequences, times and headers, and no other writer. Readings from an outage of the link are
    not fetched later.
    """
    log, output = cluster_log(cluster).stream, output_stream(cluster)
    stored = {**_config((), bytes_max=bus.log_bytes_max), "deny_delete": True}
    printed = _recent((), bytes_max=OUTPUT_BYTES_MAX, age_s=OUTPUT_AGE_S)
    recorded = _recent((), bytes_max=COPIED_CHECKPOINT_BYTES_MAX, age_s=0)
    for config in (stored, printed, recorded):
        del config["duplicate_window"]  # the original looks for duplicates, and the server gives a copy no window
    there = _external(cluster, deliver=copied(cluster))
    return (
        StreamPlan(
            copied_checkpoints(cluster),
            {**recorded, "mirror": {"name": store_stream(CHECKPOINTS_BUCKET), "external": there}},
        ),
        StreamPlan(log, {**stored, "mirror": {"name": log, "external": there}}),
        StreamPlan(output, {**printed, "mirror": {"name": output, "external": there}}),
        _telemetry(cluster),
    )


async def bootstrap(connection: Client, settings: Settings, *, alone: bool = False) -> None:
    """Create missing streams, change those that differ, keep the rest. May run repeatedly, also beside services.

    alone: of a center whose cells do not exist yet: leave out their sources. The broker would request streams that do
    not exist, and then wait longer and longer between requests.
    Raises StreamConflictError if a stream holds more than its new size allows, has other subjects or storage, or has
    options or sources that Muster did not set; ApiError, LogUnavailableError.
    """
    for stream in plan(settings):
        if alone and ("mirror" in stream.config or stream.name == FED_UP_LOG.stream):
            continue
        await _ensure(connection, stream)


async def _ensure(connection: Client, wanted: StreamPlan) -> None:
    found = await jsapi.stream_info(connection, wanted.name)
    if found is None:
        await _create(connection, wanted)
        return
    _refuse_foreign(wanted, found)
    config = {**found.config, **wanted.config, **_with_sources(_merged(found.config, wanted.sources))}
    drifted = [key for key in (*wanted.config, "sources") if config.get(key) != found.config.get(key)]
    if not drifted:
        return
    _refuse_loss(wanted, found)
    _logger.warning("stream %s: updating %s", wanted.name, ", ".join(drifted))
    await jsapi.call(connection, f"STREAM.UPDATE.{wanted.name}", config)


async def _create(connection: Client, wanted: StreamPlan) -> None:
    """Create a stream. While the accounts of a new server begin, it may fail to make the directory of a store."""
    config = {"name": wanted.name, **wanted.config, **_with_sources(wanted.sources)}
    for attempt in range(1, CREATE_ATTEMPTS_MAX + 1):
        try:
            await jsapi.call(connection, f"STREAM.CREATE.{wanted.name}", config)
        except ApiError as error:
            if error.err_code != jsapi.NO_STORE or attempt == CREATE_ATTEMPTS_MAX:
                raise
            _logger.warning("stream %s: %s; attempt %d", wanted.name, error, attempt)
            await asyncio.sleep(CREATE_PAUSE_S)
        else:
            return


def _refuse_foreign(wanted: StreamPlan, found: jsapi.StreamInfo) -> None:
    """Refuse what Muster did not set: such an option may copy a log elsewhere, rewrite it, or let facts be deleted.

    Options that the server fills in have no effect (`_NO_EFFECT`). Raises StreamConflictError.
    """
    ours = {"name", "sources", *wanted.config, *_OTHERS_MAY_SET}
    for option, value in found.config.items():
        if option not in ours and value not in _NO_EFFECT:
            raise _foreign(wanted.name, option, value)
    names = {str(source["name"]) for source in wanted.sources}
    for source in _sources_of(found.config):
        if source.get("name") not in names and not (wanted.name == FED_UP_LOG.stream and _is_report_source(source)):
            raise _foreign(wanted.name, "sources", source)


def _foreign(stream: str, option: str, value: object) -> StreamConflictError:
    return StreamConflictError(
        f"stream {stream}: {option} is {value}, which Muster did not set; find out who set it, remove it "
        f"(`nats stream edit {stream}`), then start again"
    )


def _sources_of(config: Mapping[str, object]) -> list[Json]:
    standing = config.get("sources")
    return [source for source in standing if isinstance(source, dict)] if isinstance(standing, list) else []


def _is_report_source(source: Json) -> bool:
    """Return whether bootstrap of another cluster on this broker, of any release, added this source to the reports."""
    name, transforms = str(source.get("name", "")), source.get("subject_transforms")
    if not name.startswith(_LOG_PREFIX) or not isinstance(transforms, list) or set(source) - _SOURCE_KEYS:
        return False
    cluster = name.removeprefix(_LOG_PREFIX)
    return all(
        str(one.get("src", "")).startswith(f"muster.{cluster}.")
        and str(one.get("dest", "")).startswith(f"fedup.{cluster}.")
        for one in transforms
    )


def _refuse_loss(wanted: StreamPlan, found: jsapi.StreamInfo) -> None:
    """Refuse a size below the stored size: it would refuse every append (or delete the oldest messages)."""
    bytes_max = wanted.config.get("max_bytes")
    if isinstance(bytes_max, int) and 0 < bytes_max < found.state.bytes:
        raise StreamConflictError(
            f"stream {wanted.name}: max_bytes {bytes_max} is less than the {found.state.bytes} bytes that it holds; "
            "set a larger size, or trim the log first"
        )
    for key in ("subjects", "storage", "mirror"):
        if key in wanted.config and wanted.config[key] != found.config.get(key):
            raise StreamConflictError(
                f"stream {wanted.name}: {key} is {found.config.get(key)}, wanted is {wanted.config[key]}; "
                "a stack that was made otherwise cannot be changed in place"
            )


def _merged(found: Mapping[str, object], wanted: Sequence[Mapping[str, object]]) -> tuple[Mapping[str, object], ...]:
    """Return the existing sources with those of the same stream replaced: other clusters' sources stay.

    The position at which a restored stream continues (`archive.import_log`) is kept.
    """
    by_name: dict[str, Mapping[str, object]] = {str(source["name"]): source for source in _sources_of(found)}
    for source in wanted:
        name = str(source["name"])
        resumed = {key: value for key, value in by_name.get(name, {}).items() if key == "opt_start_seq"}
        by_name[name] = {**source, **resumed}
    return tuple(by_name.values())


def _with_sources(sources: Sequence[Mapping[str, object]]) -> Json:
    return {"sources": [dict(source) for source in sources]} if sources else {}


def _config(subjects: Sequence[str], *, bytes_max: int) -> Json:
    """Keeps everything until it is full, then refuses. `discard` explicit: the default deletes the oldest."""
    config: Json = {
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "max_bytes": bytes_max,
        "max_age": 0,
        "duplicate_window": DUPLICATE_WINDOW_S * NS_PER_S,
    }
    if subjects:
        config["subjects"] = list(subjects)
    return config


def _log_config(subjects: str, bytes_max: int) -> Json:
    """Return the configuration of a log: single facts cannot be deleted, only its beginning purged."""
    return {**_config((subjects,), bytes_max=bytes_max), "allow_atomic": True, "deny_delete": True}


def _recent(subjects: Sequence[str], *, bytes_max: int, age_s: int) -> Json:
    """Return the configuration of a stream that keeps the newest messages. It acknowledges nothing, and no publisher
    waits for it: messages from other accounts and cells bring their reply subject along, and a stream that takes it
    would store the answer."""
    return {**_config(subjects, bytes_max=bytes_max), "discard": "old", "max_age": age_s * NS_PER_S, "no_ack": True}


def _bucket(name: str, *, ttl_s: float = 0.0) -> Json:
    """Return the configuration of a key-value bucket (ADR-8) that is read from the leader only.

    A direct get may be served by a follower, so it could return a lease or a token that is gone; and its answer carries
    the stored headers to a subject that the client chooses. No rollups: one such message would empty the bucket, and a
    client that may store a message anywhere could make the broker deliver it here.
    """
    window_s = min(ttl_s, DUPLICATE_WINDOW_S) if ttl_s else DUPLICATE_WINDOW_S
    return {
        **_config((f"$KV.{name}.>",), bytes_max=BUCKET_BYTES_MAX),
        "max_msgs_per_subject": 1,
        "max_age": round(ttl_s * NS_PER_S),
        "duplicate_window": round(window_s * NS_PER_S),
        "allow_rollup_hdrs": False,
        "allow_direct": False,
        "deny_delete": True,
    }


def _object_store(name: str) -> Json:
    """Return the configuration of an object store (ADR-20) that is read from the leader only."""
    config = _config((f"$O.{name}.C.>", f"$O.{name}.M.>"), bytes_max=CHECKPOINT_BYTES_MAX)
    return {**config, "allow_rollup_hdrs": True, "allow_direct": False}


def _source(stream: str, transforms: Sequence[tuple[str, str]]) -> Json:
    """Return a source. An external source that named its own domain would be accepted but transfer nothing."""
    return {"name": stream, "subject_transforms": [{"src": src, "dest": dest} for src, dest in transforms]}


def _external(domain: str, *, deliver: str) -> Json:
    """Return the reference to another domain. Deliveries use the cluster's own subjects: no other cell may listen."""
    return {"api": api_of(domain), "deliver": deliver}


def _addressed_to(cluster: str) -> list[tuple[str, str]]:
    """Return the transforms of the federation's messages to a cluster. One wildcard, since every sourced message
    carries its source's transforms, and a source whose transforms change starts over."""
    return [(addressed_to(cluster), f"muster.{cluster}.federation.>")]


def _reported_by(cluster: str) -> list[tuple[str, str]]:
    """Return the transforms of a cluster's reports to the federation: exactly the facts of the reports in the table.

    A new row changes the transforms, so the reports of all jobs are sent again; receivers recognize their ids.
    """
    return [
        (
            f"muster.{cluster}.{row.writer}.{row.kind}.*.{row.name}",
            f"fedup.{cluster}.{row.writer}.{row.kind}.{{{{wildcard(1)}}}}.{row.name}",
        )
        for row in TABLE
        if row.stream is StreamRole.FED_UP
    ]
