"""Telemetry on its way to dashboards: the newest of every node, once a second, on the view and in the read model.

What nodes send more often is left out unread. Derived and short-lived: what is lost comes again with the next interval.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from pydantic import ValidationError
from redis.asyncio import Redis
from redis.exceptions import RedisError

from muster.bus.service import LeaderHandle
from muster.core.fact import Core, Fact
from muster.core.instant import Instant
from muster.projector.core import ProjectorCore
from muster.projector.core.readings import readings_row, telemetry_messages
from muster.projector.fleet_metrics import FleetMetrics
from muster.projector.transactions import transact
from muster.projector.view import can_send
from muster.projector.view_metrics import PassedMetrics, passed_metrics
from muster.projector.writer import readings
from muster.schemas.live import PUBLIC_AUDIENCE
from muster.schemas.readmodel import ReadModel
from muster.schemas.subjects import cluster_log, telemetry_subject, view_subject
from muster.schemas.telemetry import NodeReading

INTERVAL_S = 1.0
NODES_AT_ONCE = 200  # decoded before others have their turn
PENDING_MESSAGES_MAX = 8_192  # not taken in yet; more are dropped by the client
PENDING_BYTES_MAX = 16 * 1024 * 1024
REDIS_TIMEOUT_S = 5.0

_log = logging.getLogger(__name__)


@dataclass
class TelemetrySink:
    """Implements `muster.bus.service.Sink`, for the readings beside one cluster's log."""

    cluster: str
    redis_url: str
    model: ReadModel
    _came: dict[str, bytes] = field(default_factory=dict)  # by node, the newest message, not decoded
    _unstored: dict[str, bytes] = field(default_factory=dict)
    _fleet: FleetMetrics = field(default_factory=FleetMetrics)
    _task: asyncio.Task[None] | None = None
    _subscription: Subscription | None = None
    _closing: bool = False

    async def open(self, core: Core, connection: Client, seat: LeaderHandle) -> None:
        """Begin to listen."""
        assert isinstance(core, ProjectorCore), "nodes are known by a cluster's projection"
        self._closing = False
        self._subscription = await connection.subscribe(
            telemetry_subject(self.cluster, "*"),
            cb=self._take_in,
            pending_msgs_limit=PENDING_MESSAGES_MAX,
            pending_bytes_limit=PENDING_BYTES_MAX,
        )
        self._task = asyncio.create_task(self._run(core, connection, seat), name=f"telemetry-{self.cluster}")

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:  # noqa: ARG002 - the port
        """Nothing follows from facts. Raises what ended the passing on, if something did."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    async def close(self) -> None:
        """Listen no more."""
        self._closing = True
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with suppress(nats.errors.Error):  # the connection may be gone, and the subscription with it
                await subscription.unsubscribe()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._came.clear()
        self._fleet.hide()

    async def _take_in(self, message: Msg) -> None:
        self._came[message.subject] = message.data

    async def _run(self, core: ProjectorCore, connection: Client, seat: LeaderHandle) -> None:
        metrics = passed_metrics(cluster_log(self.cluster).stream)
        redis = Redis.from_url(self.redis_url, socket_timeout=REDIS_TIMEOUT_S, socket_connect_timeout=REDIS_TIMEOUT_S)
        try:
            while not self._closing:  # asked each round: a cancellation may be lost in the client's time-outs
                await asyncio.sleep(INTERVAL_S)
                if self._came:
                    came, self._came = self._came, {}
                    rows, at = await self._decoded(came, core, metrics)
                    await self._publish(rows, at, connection, seat, metrics)
                    self._unstored.update(rows)
                    self._fleet.show()
                await self._store(redis, core)
        finally:
            await redis.aclose()

    async def _decoded(
        self, came: dict[str, bytes], core: ProjectorCore, metrics: PassedMetrics
    ) -> tuple[dict[str, bytes], int]:
        """Rows by node, and when the newest was measured. Nodes that the log does not know (any more) are left out."""
        rows: dict[str, bytes] = {}
        at = 0
        for count, body in enumerate(came.values(), start=1):
            try:
                sample = NodeReading.model_validate_json(body)
            except ValidationError:
                metrics.unreadable.inc()
                continue
            if core.has_node(sample.node):
                rows[sample.node] = readings_row(sample)
                self._fleet.report(sample)
                at = max(at, sample.at)
            if count % NODES_AT_ONCE == 0:
                await asyncio.sleep(0)
        return rows, at

    async def _publish(
        self, rows: dict[str, bytes], at: int, connection: Client, seat: LeaderHandle, metrics: PassedMetrics
    ) -> None:
        subject = view_subject(self.cluster, PUBLIC_AUDIENCE, "telemetry")
        for body in telemetry_messages(self.cluster, rows, at=at):
            if not can_send(connection, seat):
                metrics.dropped.inc()
                continue
            await connection.publish(subject, body)
            metrics.sent.inc()

    async def _store(self, redis: Redis, core: ProjectorCore) -> None:
        """For snapshots; what cannot be stored now is stored with the next, if its node is still there."""
        self._unstored = {node: row for node, row in self._unstored.items() if core.has_node(node)}
        if not self._unstored:
            return
        try:
            await transact(redis, (readings(self.model, self._unstored),))
        except (RedisError, OSError, TimeoutError) as error:
            _log.info("telemetry of %s is not in the read model: %s", self.cluster, error)
            return
        self._unstored.clear()
