"""The snapshot at the start of a dashboard: every live row, read once for all concurrent requests, passed on as stored.

The sequences of the read model are read first, in one transaction with the lists and the tables, and the rows of jobs
after it. So a row may be newer than its sequence, never older, and changes in between also reach the dashboard as
slices.

With several clusters, the row of a job is that of the cluster that the federation names. Rows of other clusters are
marked as unconfirmed: the federation's rows may be behind that cluster's, and no slice repeats what the snapshot
covers.
"""

import asyncio
import json
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from redis.asyncio import Redis

from muster.bus.clock import TimeSource
from muster.gateway.ports import UnreachableError
from muster.gateway.redis_view import Command, answers_of, assigned_row
from muster.schemas.live import FED_CLUSTER, PUBLIC_AUDIENCE
from muster.schemas.readmodel import LAYOUT_VERSION, ReadModel

ROWS_PER_COMMAND = 1_000
READS_MAX = 3  # attempts while the read model is being rebuilt
UNCONFIRMED_MAX = 1_000  # rows per cluster, of the newest submissions
GZIP_LEVEL = 1  # five times faster than the usual level, and a tenth larger
GZIP_FORMAT = 31  # zlib's largest window, with gzip's header

EVERY_AUDIENCE = "*"
_TABLES = ("nodes", "queues", "reservations")

T = TypeVar("T")


class Shared(Generic[T]):
    """One read at a time for any number of readers; each gets a read that began after its request."""

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """Return the result. Raises what the read raises."""
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._running))
            self._next.add_done_callback(_retrieved)
        return await asyncio.shield(self._next)

    async def _after(self, before: asyncio.Task[T] | None) -> T:
        if before is not None:
            await asyncio.wait([before])
        mine, self._next = self._next, None
        self._running = mine
        try:
            return await self._read()
        finally:
            if self._running is mine:  # the result may be large, so only its readers keep it
                self._running = None


def _retrieved(task: asyncio.Task[T]) -> None:
    """Mark the exception as retrieved: all readers received it, or no reader is left."""
    if not task.cancelled():
        task.exception()


@dataclass(frozen=True)
class Image:
    """A snapshot but for `seqs`, which differ by audience. seqs: by cluster. body: JSON that is not closed yet."""

    seqs: Mapping[str, int]
    body: bytes
    packed: bytes
    packer: "zlib._Compress"

    def whole(self, audiences: Iterable[str]) -> bytes:
        """Return the JSON of a `Snapshot`."""
        return self.body + self._end(audiences)

    def gzipped(self, audiences: Iterable[str]) -> bytes:
        """Return the JSON, compressed; only the end that differs is compressed anew."""
        packer = self.packer.copy()
        return self.packed + packer.compress(self._end(audiences)) + packer.flush()

    def _end(self, audiences: Iterable[str]) -> bytes:
        told = {cluster: dict.fromkeys(audiences, seq) for cluster, seq in self.seqs.items()}
        return b',"seqs":' + json.dumps(told, separators=(",", ":")).encode() + b"}"


def audiences_of(*, teams: Iterable[str], sees_all: bool) -> tuple[str, ...]:
    """Return the audiences of a principal in the live view. sees_all: it sees every team."""
    return (PUBLIC_AUDIENCE, EVERY_AUDIENCE) if sees_all else (PUBLIC_AUDIENCE, *sorted(set(teams) - {PUBLIC_AUDIENCE}))


@dataclass(frozen=True, slots=True)
class _Marker:
    """The sequence of a log up to which its rows are complete. log: the identity of the log."""

    seq: int
    log: bytes


@dataclass(frozen=True, slots=True)
class _Base:
    """The result of the first transaction. live: ids of live jobs, by log. tables: encoded rows by table, of the
    clusters. assigned: the clusters of live jobs that the federation names; empty if there is one cluster."""

    markers: Sequence[_Marker]
    live: Sequence[list[str]]
    tables: Mapping[str, list[tuple[bytes, bytes]]]
    assigned: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class JobRows:
    """Encoded rows of live jobs. unconfirmed: rows of clusters to which the federation has not assigned the job."""

    shown: Sequence[bytes]
    unconfirmed: Sequence[bytes] = ()


class Snapshots:
    """Snapshots of the read models of several clusters and of the federation."""

    def __init__(self, redis: Redis, *, clusters: Mapping[str, ReadModel], fed: ReadModel, time: TimeSource) -> None:
        self._redis = redis
        self._names = (*clusters, FED_CLUSTER)
        self._clusters = tuple(clusters.values())
        self._models = (*self._clusters, fed)
        self._time = time
        self._shared = Shared(self._read)

    async def image(self) -> Image:
        """Return a snapshot that is read after this call. Raises UnreachableError, also during a rebuild of the read
        model."""
        return await self._shared.get()

    async def _read(self) -> Image:
        for _ in range(READS_MAX):
            base = await self._base()
            jobs = await (self._jobs_of_one(base) if len(self._clusters) == 1 else self._jobs_of_several(base))
            after = await self._markers()
            if all(now.log == then.log and now.seq >= then.seq for then, now in zip(base.markers, after, strict=True)):
                seqs = {name: marker.seq for name, marker in zip(self._names, base.markers, strict=True)}
                return await asyncio.to_thread(image_of, seqs, self._time.wall(), jobs, base.tables)
        raise UnreachableError("the read model is being rebuilt")

    async def _base(self) -> _Base:
        asked: list[Command] = [_marker(model) for model in self._models]
        asked += [("ZRANGE", model.key("live"), 0, -1) for model in self._models]
        names = (*_TABLES, "telemetry")
        asked += [("HGETALL", model.key(name)) for name in names for model in self._clusters]
        if len(self._clusters) > 1:
            asked.append(("HGETALL", self._models[-1].key("assigned")))
        answers = await self._ask(asked, transaction=True)
        count = len(self._models)
        markers = [_read_marker(answer) for answer in answers[:count]]
        live = [
            [member.decode().split(":", 1)[1] for member in cast("list[bytes]", answer)]
            for answer in answers[count : 2 * count]
        ]
        found = iter(answers[2 * count :])
        tables = {
            name: [row for _ in self._clusters for row in cast("dict[bytes, bytes]", next(found)).items()]
            for name in names
        }
        assigned = cast("dict[bytes, bytes]", next(found, {}))
        return _Base(markers, live, tables, {job_id.decode(): name.decode() for job_id, name in assigned.items()})

    async def _markers(self) -> list[_Marker]:
        answers = await self._ask([_marker(model) for model in self._models], transaction=True)
        return [_read_marker(answer) for answer in answers]

    async def _jobs_of_one(self, base: _Base) -> JobRows:
        """Return the cluster's rows, and the federation's rows of jobs without one."""
        cluster, fed = self._models
        of_cluster, of_fed = base.live
        known = set(of_cluster)
        unrouted = [job_id for job_id in of_fed if job_id not in known]
        # a row that is not among the live ones has ended, or comes as a slice
        found = await self._rows(cluster, unrouted)
        unrouted = [job_id for job_id, row in zip(unrouted, found, strict=True) if row is None]
        return JobRows(_present([*await self._rows(cluster, of_cluster), *await self._rows(fed, unrouted)]))

    async def _jobs_of_several(self, base: _Base) -> JobRows:
        """Return the row of each job's own cluster, and the federation's row if that cluster has none."""
        assigned, shown, unconfirmed = dict(base.assigned), list[bytes | None](), list[bytes | None]()
        await self._ask_for_unknown(base, assigned)
        told: set[str] = set()
        for model, ids in zip(self._clusters, base.live, strict=False):
            own = [job_id for job_id in ids if assigned.get(job_id) == model.scope]
            told.update(own)
            shown += await self._rows(model, own)
            if len(own) < len(ids):
                others = [job_id for job_id in ids if assigned.get(job_id) != model.scope]
                unconfirmed += await self._rows(model, others[-UNCONFIRMED_MAX:])
        left = [job_id for job_id in base.live[-1] if job_id not in told]
        for model in self._clusters:  # as above: the job has ended, or comes as a slice
            sent = [job_id for job_id in left if assigned.get(job_id) == model.scope]
            found = await self._rows(model, sent)
            there = {job_id for job_id, row in zip(sent, found, strict=True) if row is not None}
            left = [job_id for job_id in left if job_id not in there]
        shown += await self._rows(self._models[-1], left)
        return JobRows(_present(shown), _present(unconfirmed))

    async def _ask_for_unknown(self, base: _Base, assigned: dict[str, str]) -> None:
        """Add the clusters of jobs that are live in a cluster but not in the federation."""
        ids = list({job_id for ids in base.live[:-1] for job_id in ids if job_id not in assigned})
        names = tuple(model.scope for model in self._clusters)
        found = [await self._rows(model, ids) for model in self._models]
        for job_id, rows in zip(ids, zip(*found, strict=True), strict=True):
            assigned[job_id] = assigned_row(names, rows, is_shared=True).cluster

    async def _rows(self, model: ReadModel, job_ids: Sequence[str]) -> list[bytes | None]:
        asked: list[Command] = [
            ("HMGET", model.key("jobs"), *job_ids[start : start + ROWS_PER_COMMAND])
            for start in range(0, len(job_ids), ROWS_PER_COMMAND)
        ]
        answers = cast("list[list[bytes | None]]", await self._ask(asked, transaction=False))
        return [row for answer in answers for row in answer]

    async def _ask(self, commands: Sequence[Command], *, transaction: bool) -> list[object]:
        return await answers_of(self._redis, commands, transaction=transaction) if commands else []


def _present(rows: Iterable[bytes | None]) -> list[bytes]:
    return [row for row in rows if row is not None]


def _marker(model: ReadModel) -> Command:
    return ("HMGET", model.key("marker"), "seq", "log", "version")


def _read_marker(answer: object) -> _Marker:
    seq, log, version = cast("list[bytes | None]", answer)
    if seq is None or log is None or version != LAYOUT_VERSION.encode():
        raise UnreachableError("the read model is not complete yet")
    return _Marker(int(seq), log)


def image_of(
    seqs: Mapping[str, int], at: int, jobs: JobRows, tables: Mapping[str, Sequence[tuple[bytes, bytes]]]
) -> Image:
    """Assemble the snapshot. tables: encoded rows of `nodes`, `queues`, `reservations` and `telemetry`."""
    parts = [b'{"at":%d,"jobs":[' % at, b",".join(jobs.shown), b"]"]
    parts += [b',"unconfirmed_jobs":[', b",".join(jobs.unconfirmed), b"]"]
    for name in _TABLES:
        parts += (b',"', name.encode(), b'":[', b",".join(row for _, row in sorted(tables[name])), b"]")
    readings = (json.dumps(node.decode()).encode() + b":" + row for node, row in tables["telemetry"])
    parts += (b',"telemetry":{', b",".join(readings), b"}")
    body = b"".join(parts)
    packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, GZIP_FORMAT)
    return Image(seqs, body, packer.compress(body), packer)
