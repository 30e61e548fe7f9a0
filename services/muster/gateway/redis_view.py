"""The read model over Redis. Rows are passed on as stored: rows that are only shown are not parsed."""

import json
import re
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from muster.gateway.ports import JobFilter, Known, NodeShape, Page, UnreachableError
from muster.schemas.readmodel import ReadModel, fact_body, fact_range, order_key
from muster.schemas.subjects import FED_STREAM, cluster_log
from muster.schemas.views import FactView, JobView

SCAN_ROWS = 500  # rows read in one step of a filtered list
SCAN_STEPS_MAX = 20
_CLUSTER = re.compile(rb'"cluster":"([a-z0-9-]*)"')
Command = tuple[str | bytes | int, ...]


@dataclass(frozen=True, slots=True)
class AssignedRow:
    """A job's row to show."""

    row: bytes | None
    cluster: str = ""
    """The cluster whose log has facts about the job, beside the federation's; "" for none."""


class RedisView:
    """The rows of the clusters and of the federation, merged.

    A job's row is the one of its assigned cluster (`assigned_row`); the federation's row is older. A list is the
    merge of the lists.
    """

    def __init__(
        self, redis: Redis, *, clusters: Sequence[ReadModel], fed: ReadModel, has_others: bool = False
    ) -> None:
        """Read these namespaces. has_others: the federation has further clusters, which are not read."""
        self._redis = redis
        self._clusters = tuple(clusters)
        self._fed = fed
        self._names = tuple(model.scope for model in clusters)
        self._all = (*self._clusters, fed)
        self._is_shared = has_others or len(self._clusters) > 1

    async def job(self, job_id: str) -> Known:
        """Return a job's row: of the cluster that has the job, else of the federation."""
        asked = [("HGET", model.key("jobs"), job_id) for model in self._all]
        *rows, seq = await self._ask(*asked, ("HGET", self._fed.key("marker"), "seq"))
        shown = self._assigned(cast("list[bytes | None]", rows))
        return Known(shown.row, int(cast("bytes", seq)) if seq is not None else 0)

    async def jobs(self, wanted: JobFilter, *, limit: int, cursor: str) -> Page:
        """Return a page of jobs. It reads a bounded number of rows, so a page may be short and still have a next
        page."""
        rows: list[bytes] = []
        upper = f"({cursor}" if cursor else _first(wanted)
        for _ in range(SCAN_STEPS_MAX):
            members = await self._members(wanted, upper, max(limit - len(rows), 1))
            if not members:
                return Page(tuple(rows), "")
            for member, row in await self._rows_of(members, by="ended_at" if wanted.ended_only else "submitted_at"):
                if row is not None and _matches(row, wanted):
                    rows.append(row)
                    if len(rows) == limit:
                        return Page(tuple(rows), member)
            upper = f"({members[-1]}"
        return Page(tuple(rows), members[-1])

    async def trail(self, job_id: str) -> tuple[bytes, ...]:
        """Return all kept facts of a job, encoded, by time."""
        low, high = fact_range(job_id)
        told_by = self._all if not self._is_shared else await self._told_by(job_id)
        found = await self._ask(*(("ZRANGEBYLEX", model.key("facts"), low, high) for model in told_by))
        bodies = [fact_body(member) for members in found for member in cast("list[bytes]", members)]
        stamped = [(FactView.model_validate_json(body), body) for body in bodies]
        stamped.sort(key=lambda item: (item[0].time, item[0].stream, item[0].seq))
        return tuple(body for _, body in stamped)

    async def logs_of(self, job_id: str) -> frozenset[str] | None:
        """Return the streams that `trail` reads for the job; None means all streams, if there is one cluster."""
        if not self._is_shared:
            return None
        told_by = await self._told_by(job_id)
        return frozenset(FED_STREAM if model is self._fed else cluster_log(model.scope).stream for model in told_by)

    async def nodes(self) -> tuple[bytes, ...]:
        """Return all nodes, encoded, by name."""
        return await self._rows("nodes")

    async def queues(self) -> tuple[bytes, ...]:
        """Return all queues, encoded, by name."""
        return await self._rows("queues")

    async def reservations(self) -> tuple[bytes, ...]:
        """Return all booked reservations, encoded, by name."""
        return await self._rows("reservations")

    async def shapes(self) -> Sequence[NodeShape] | None:
        """Return the distinct node shapes; None while the read model was never written."""
        found = await self._ask(*(("GET", model.key("shapes")) for model in self._clusters))
        written = await self._ask(*(("HEXISTS", model.key("marker"), "log") for model in self._clusters))
        if not any(written):
            return None
        rows = (row for body in found if body is not None for row in json.loads(cast("bytes", body)))
        return [(gpu_model, gpus, cpu, memory, tuple(levels)) for gpu_model, gpus, cpu, memory, levels in rows]

    async def _told_by(self, job_id: str) -> tuple[ReadModel, ...]:
        """Return the namespaces that hold the job's facts: of its cluster, if it has one, and of the federation."""
        rows = await self._ask(*(("HGET", model.key("jobs"), job_id) for model in self._all))
        cluster = self._assigned(cast("list[bytes | None]", rows)).cluster
        return tuple(model for model in self._all if model is self._fed or model.scope == cluster)

    def _assigned(self, rows: Sequence[bytes | None]) -> AssignedRow:
        return assigned_row(self._names, rows, is_shared=self._is_shared)

    async def _members(self, wanted: JobFilter, upper: str, count: int) -> list[str]:
        """Return the next members of the merged lists, newest first, each once, up to the end of a cut list."""
        count = SCAN_ROWS if _is_narrower(wanted) else count
        lower = f"[{order_key(wanted.ended_from, '')}" if wanted.ended_from else "-"
        asked = [("ZREVRANGEBYLEX", _list_key(model, wanted), upper, lower, "LIMIT", 0, count) for model in self._all]
        lists = cast("list[list[bytes]]", await self._ask(*asked))
        merged = sorted({member.decode() for members in lists for member in members}, reverse=True)
        cuts = [members[-1].decode() for members in lists if len(members) == count]
        return [member for member in merged if member >= max(cuts)] if cuts else merged

    async def _rows_of(self, members: Sequence[str], *, by: str) -> list[tuple[str, bytes | None]]:
        job_ids = [member.split(":", 1)[1] for member in members]
        found = cast(
            "list[list[bytes | None]]",
            await self._ask(*(("HMGET", model.key("jobs"), *job_ids) for model in self._all)),
        )
        shown: list[bytes | None] = []
        for member, (*rows, of_fed) in zip(members, zip(*found, strict=True), strict=True):
            row = self._assigned((*rows, of_fed)).row
            shown.append(row if row is not None and _is_listed_as(row, member, by=by) else None)
        return list(zip(members, shown, strict=True))

    async def _rows(self, name: str) -> tuple[bytes, ...]:
        found = await self._ask(*(("HGETALL", model.key(name)) for model in self._clusters))
        rows = [item for answer in found for item in _pairs(answer)]
        return tuple(body for _, body in sorted(rows))

    async def _ask(self, *commands: Command) -> list[object]:
        return await answers_of(self._redis, commands)


async def answers_of(redis: Redis, commands: Sequence[Command], *, transaction: bool = False) -> list[object]:
    """Return the read model's answers to these commands. Raises UnreachableError."""
    try:
        async with redis.pipeline(transaction=transaction) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            return await cast("Awaitable[list[object]]", pipe.execute())
    except (RedisError, OSError, TimeoutError) as error:
        raise UnreachableError(f"the read model does not answer: {error}") from error


def assigned_row(clusters: Sequence[str], rows: Sequence[bytes | None], *, is_shared: bool) -> AssignedRow:
    """Return the row of a job to show. rows: of these clusters, then of the federation.

    is_shared: other clusters could write about the job, too. Then only the cluster that the federation names is
    trusted: any cluster could invent a row of another's job, with any team. A job that the federation no longer has
    is shown if exactly one cluster has a row.
    """
    *of_clusters, of_fed = rows
    told = [AssignedRow(row, name) for name, row in zip(clusters, of_clusters, strict=True) if row is not None]
    if is_shared and of_fed is not None:
        cluster = cluster_in(of_fed)
        return next((one for one in told if one.cluster == cluster), AssignedRow(of_fed, cluster))
    if len(told) == 1:
        return told[0]
    return AssignedRow(None if told else of_fed)


def cluster_in(row: bytes) -> str:
    """Return the cluster that an encoded row names. Decoding the whole row would take most of a list's time.

    Quotes within a text are escaped in JSON, so no name of a job or team can match.
    """
    named = _CLUSTER.search(row)
    return named.group(1).decode() if named is not None else ""


def _pairs(answer: object) -> list[tuple[bytes, bytes]]:
    return list(cast("dict[bytes, bytes]", answer).items())


def _list_key(model: ReadModel, wanted: JobFilter) -> str:
    """Return the key of the shortest list that holds all wanted jobs, in the wanted order."""
    if wanted.ended_only:
        return model.key("ended")
    if wanted.phase is not None:
        return model.phase(wanted.phase)
    if wanted.live_only:
        return model.key("live")
    if wanted.team:
        return model.team(wanted.team)
    if wanted.queue:
        return model.queue(wanted.queue)
    return model.key("all")


def _first(wanted: JobFilter) -> str:
    """Return the upper bound of the first page."""
    return f"({order_key(wanted.ended_before, '')}" if wanted.ended_before else "+"


def _is_listed_as(row: bytes, member: str, *, by: str) -> bool:
    """Return whether the row is listed with its own time. Another log's list may have another, also invented, time.

    by: the field of the list's order.
    """
    return b'"%s":%d,' % (by.encode(), int(member.partition(":")[0])) in row


def _is_narrower(wanted: JobFilter) -> bool:
    """Return whether the list holds more than the wanted jobs, so that rows are read in larger steps."""
    is_ended = wanted.ended_only  # in one list for all teams, queues and phases
    given = (wanted.team, wanted.queue, wanted.phase is not None, wanted.live_only, is_ended)
    return bool(wanted.user) or sum(map(bool, given)) > 1


def _matches(row: bytes, wanted: JobFilter) -> bool:
    if wanted == JobFilter():
        return True
    view = JobView.model_validate_json(row)
    return (
        (not wanted.team or view.team == wanted.team)
        and (not wanted.queue or view.queue == wanted.queue)
        and (not wanted.user or view.principal == wanted.user)
        and (wanted.phase is None or view.phase is wanted.phase)
        and not (wanted.live_only and view.phase.is_terminal)
        and not (wanted.ended_only and not view.phase.is_terminal)
    )
