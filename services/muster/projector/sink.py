"""Writes the read model: a task beside the fold that stores changes, one transaction at a time.

The fold never waits for Redis. While Redis is slow or unavailable, changes collect in the core, within bounds; then one
larger transaction catches up. Every transaction carries the sequence up to which the rows are complete. A writer that
finds another sequence than its own (Redis restarted empty, was flushed, belongs to another log) compares and fills it
again; it also checks while there are no changes.

The output of jobs passes through here, unchanged, to the dashboards of their teams, within bounds; the rest is dropped.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from redis.asyncio import Redis
from redis.exceptions import RedisError

from muster.bus.clock import TimeSource
from muster.bus.service import LeaderHandle
from muster.core.fact import Core, Fact
from muster.core.instant import Instant
from muster.projector.core import Projection
from muster.projector.core.changes import Changes, JobChange, job_change
from muster.projector.transactions import Expected, ViewChangedError, transact
from muster.projector.view import can_send
from muster.projector.view_metrics import passed_metrics
from muster.projector.writer import Command, advance, commands, marker, removal, split
from muster.schemas.live import PUBLIC_AUDIENCE
from muster.schemas.readmodel import ENDED_ROWS_MAX, LAYOUT_VERSION, ReadModel
from muster.schemas.subjects import cluster_log, output_subject, view_subject
from muster.schemas.views import JobView

WINDOW_S = 1.0
JOB_BYTES_MAX = 128 * 1024  # of one job in one window
BYTES_MAX = 4 * 1024 * 1024  # of all jobs in one window
PENDING_MESSAGES_MAX = 8_192  # not handled yet; the client drops further messages
PENDING_BYTES_MAX = 16 * 1024 * 1024


@dataclass
class Allowance:
    """A limit per window. Pure: times are arguments."""

    job_bytes_max: int = JOB_BYTES_MAX
    bytes_max: int = BYTES_MAX
    _until_s: float = float("-inf")
    _all: int = 0
    _by_job: dict[str, int] = field(default_factory=dict)

    def takes(self, job_id: str, size: int, *, now_s: float) -> bool:
        """Return whether a message of this size may pass, and count it if so."""
        if now_s >= self._until_s:
            self._until_s, self._all = now_s + WINDOW_S, 0
            self._by_job.clear()
        of_job = self._by_job.get(job_id, 0) + size
        if of_job > self.job_bytes_max or self._all + size > self.bytes_max:
            return False
        self._by_job[job_id] = of_job
        self._all += size
        return True


@dataclass
class OutputSink:
    """Implements `muster.bus.service.Sink` for the output of jobs in one cluster."""

    cluster: str
    time: TimeSource
    _subscription: Subscription | None = None

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:
        """Start to pass output on."""
        assert isinstance(core, Projection), "jobs are known by a projection"
        metrics = passed_metrics(cluster_log(self.cluster).stream)
        allowance = Allowance()

        async def pass_on(message: Msg) -> None:
            job_id = message.subject.rpartition(".")[2]
            team = core.team_of(job_id)
            if not team or team == PUBLIC_AUDIENCE:
                return
            allowed = allowance.takes(job_id, len(message.data), now_s=self.time.monotonic_s())
            if not allowed or not can_send(connection, leader):
                metrics.dropped.inc()
                return
            await connection.publish(view_subject(self.cluster, team, f"output.{job_id}"), message.data)
            metrics.sent.inc()

        self._subscription = await connection.subscribe(
            output_subject(self.cluster, "*"),
            cb=pass_on,
            pending_msgs_limit=PENDING_MESSAGES_MAX,
            pending_bytes_limit=PENDING_BYTES_MAX,
        )

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:
        """Do nothing: output does not depend on facts."""

    async def close(self) -> None:
        """Stop passing output on."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with suppress(nats.errors.Error):  # the connection may be gone, and the subscription with it
                await subscription.unsubscribe()


RETRY_S_FIRST = 0.05
RETRY_S_MAX = 2.0
LOOK_S = 2.0  # interval between checks of the stored sequence without changes
REDIS_TIMEOUT_S = 5.0
TRIM_EVERY_ENDED = 1_000  # ended rows written between two checks of their number
TRIM_ROWS_MAX = 2_000  # rows removed by one transaction

LogIdentity = Callable[[Client], Awaitable[str]]
"""Return the identity of a log, which distinguishes it from another log of the same name."""

_log = logging.getLogger(__name__)


def stream_identity(stream: str) -> LogIdentity:
    """Return a function that asks JetStream for the stream's name and creation time."""

    async def identity(connection: Client) -> str:
        info = await connection.jetstream().stream_info(stream)
        return f"{stream}@{info.created}"

    return identity


class RedisSink:
    """Stores one log's rows in Redis. ended_max: number of kept rows of ended jobs."""

    def __init__(
        self, *, redis_url: str, model: ReadModel, identity: LogIdentity, ended_max: int = ENDED_ROWS_MAX
    ) -> None:
        self._redis_url = redis_url
        self._model = model
        self._identity = identity
        self._ended_max = ended_max
        self._wake = asyncio.Event()
        self._stored = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._core: Projection | None = None
        self._leader = LeaderHandle()
        self._log_id = ""
        self._written_seq = -1
        self._aligned = False
        self._closing = False
        self._ended_since_trim = 0

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:
        """Start to update Redis, without waiting, since Redis may be unavailable.

        Raises what the identity raises: without it, rows of two logs could be mixed.
        """
        assert isinstance(core, Projection), "this sink stores projections"
        self._core, self._leader = core, leader
        self._log_id = await self._identity(connection)
        self._aligned = self._closing = False
        self._wake.set()
        self._task = asyncio.create_task(self._run(), name=f"redis-sink-{self._model.scope}")

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:  # noqa: ARG002 - the Sink protocol
        """Wake the writer for possible changes. Raises the writer's failure, if any."""
        self._raise_if_ended()
        if facts or (self._core is not None and self._core.last_seq > self._written_seq):
            self._stored.clear()
            self._wake.set()

    async def stored(self) -> None:
        """Wait until everything folded so far is stored in Redis. Raises the writer's failure, if any."""
        while self._core is not None and (not self._aligned or self._written_seq < self._core.last_seq):
            self._raise_if_ended()
            self._stored.clear()
            await self._stored.wait()

    async def close(self) -> None:
        """Stop writing; the next writer stores the rest."""
        if self._task is not None:
            self._closing = True
            self._wake.set()
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def _raise_if_ended(self) -> None:
        task = self._task
        if task is not None and task.done() and not task.cancelled():
            task.result()

    async def _run(self) -> None:
        redis = Redis.from_url(self._redis_url, socket_timeout=REDIS_TIMEOUT_S, socket_connect_timeout=REDIS_TIMEOUT_S)
        retry_s = RETRY_S_FIRST
        try:
            while not self._closing:  # checked each round: a cancellation may be lost in the client's timeouts
                is_due = await self._woken()
                if not self._leader.leads():  # not yet, or no longer, and another replica writes
                    self._aligned = False
                    await asyncio.sleep(RETRY_S_FIRST)
                    self._wake.set()
                    continue
                try:
                    if not is_due and self._aligned:
                        self._aligned = await self._stands(redis)
                    await self._bring_up(redis)
                    retry_s = RETRY_S_FIRST
                except (RedisError, OSError, TimeoutError) as error:
                    self._aligned = False
                    _log.warning(
                        "the read model of %s is behind: %s; retrying in %.2f s", self._model.scope, error, retry_s
                    )
                    await asyncio.sleep(retry_s)
                    retry_s = min(retry_s * 2, RETRY_S_MAX)
                    self._wake.set()
        finally:
            self._stored.set()
            await redis.aclose()

    async def _woken(self) -> bool:
        """Wait for changes; return False if there were none for LOOK_S."""
        try:
            async with asyncio.timeout(LOOK_S):
                await self._wake.wait()
        except TimeoutError:
            return False
        self._wake.clear()
        return True

    async def _stands(self, redis: Redis) -> bool:
        """Return whether the read model is unchanged since this writer's last transaction."""
        found = await _answer(redis.hmget(self._model.key("marker"), ["log", "seq"]))
        return found == [self._log_id.encode(), str(self._written_seq).encode()]

    async def _bring_up(self, redis: Redis) -> None:
        core = self._core
        assert core is not None, "the writer runs between open and close"
        if not self._aligned:
            await self._align(redis, core)
        seq = core.last_seq
        if seq > self._written_seq:  # also without changes, so that a snapshot does not appear to be behind
            await self._store(redis, core.take(facts_after=self._written_seq), seq=seq)
        if self._ended_since_trim >= TRIM_EVERY_ENDED:
            self._ended_since_trim = 0
            await self._trim(redis)
        self._stored.set()

    async def _align(self, redis: Redis, core: Projection) -> None:
        """Compare the stored rows with the log, and store the difference; remove rows of another log."""
        found = cast("dict[bytes, bytes]", await _answer(redis.hgetall(self._model.key("marker"))))
        known_seq = int(found.get(b"seq", -1))
        is_ours = (
            found.get(b"log") == self._log_id.encode()
            and found.get(b"version") == LAYOUT_VERSION.encode()
            and 0 <= known_seq <= core.last_seq
        )
        if not is_ours:
            await self._wipe(redis)
            known_seq = 0
        seq = core.last_seq
        changes = core.take_all(rows_after=known_seq)
        if is_ours:
            await self._take_away_unknown(redis, core)
            shown_seq = await self._newest_shown(redis)
            changes.facts = [fact for fact in changes.facts if fact.seq > shown_seq]
        for part in split(changes):
            await self._transact(redis, commands(self._model, part))
        await self._transact(redis, (marker(self._model, seq=seq, log=self._log_id),))
        self._written_seq = seq
        self._aligned = True
        self._ended_since_trim += len(changes.jobs)

    async def _store(self, redis: Redis, changes: Changes, *, seq: int) -> None:
        parts = list(split(changes))
        for part in parts[:-1]:
            await self._transact(redis, commands(self._model, part))
        as_left = {"log": self._log_id.encode(), "seq": str(self._written_seq).encode()}
        await self._transact(
            redis,
            (advance(self._model, seq=seq), *commands(self._model, parts[-1])),
            expected=Expected(self._model.key("marker"), as_left),
        )
        self._written_seq = seq
        self._ended_since_trim += sum(1 for change in changes.jobs if change.ended_order)

    async def _transact(self, redis: Redis, batch: Iterable[Command], *, expected: Expected | None = None) -> None:
        self._must_lead()
        await transact(redis, batch, expected=expected)

    def _must_lead(self) -> None:
        """Raise unless this replica leads: after a long pause, it must not overwrite its successor's rows."""
        if not self._leader.leads():
            raise ViewChangedError("another one leads, and writes")

    async def _wipe(self, redis: Redis) -> None:
        self._must_lead()
        await _answer(redis.delete(self._model.key("marker")))
        keys = [key async for key in redis.scan_iter(match=self._model.pattern, count=1_000)]
        if keys:
            await _answer(redis.unlink(*keys))

    async def _take_away_unknown(self, redis: Redis, core: Projection) -> None:
        """Remove live rows of jobs that the log no longer has: they ended unnoticed."""
        members = cast("list[bytes]", await _answer(redis.zrange(self._model.key("live"), 0, -1)))
        unknown = [job_id for member in members if not core.knows(job_id := member.decode().split(":", 1)[1])]
        for start in range(0, len(unknown), TRIM_ROWS_MAX):
            jobs = await self._stored_jobs(redis, unknown[start : start + TRIM_ROWS_MAX])
            await self._transact(redis, removal(self._model, jobs))

    async def _newest_shown(self, redis: Redis) -> int:
        """Return the sequence up to which facts are stored, including a partly stored change."""
        newest = await _answer(redis.xrevrange(self._model.key("recent"), count=1))
        entries = cast("list[tuple[bytes, dict[bytes, bytes]]]", newest)
        return int(entries[0][0].split(b"-")[0]) if entries else 0

    async def _trim(self, redis: Redis) -> None:
        key = self._model.key("ended")
        excess = cast("int", await _answer(redis.zcard(key))) - self._ended_max
        while excess > 0:
            count = min(excess, TRIM_ROWS_MAX)
            members = cast("list[bytes]", await _answer(redis.zrange(key, 0, count - 1)))
            jobs = await self._stored_jobs(redis, [member.decode().split(":", 1)[1] for member in members])
            # by what is listed, too: a job that ended at another time by its row would stay in the list for ever
            await self._transact(redis, (*removal(self._model, jobs), ("ZREM", key, *members)))
            excess -= count

    async def _stored_jobs(self, redis: Redis, job_ids: Sequence[str]) -> list[JobChange]:
        bodies = cast("list[bytes | None]", await _answer(redis.hmget(self._model.key("jobs"), list(job_ids))))
        return [_stored_job(body) for body in bodies if body is not None]


def _stored_job(body: bytes) -> JobChange:
    row = JobView.model_validate_json(body)
    return job_change(row, was=None, body=body, cluster=row.cluster)


async def _answer(reply: object) -> object:
    """Await a reply; the client's methods are typed for synchronous and asynchronous use at once."""
    return await cast("Awaitable[object]", reply)
