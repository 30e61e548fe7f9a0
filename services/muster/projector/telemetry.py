"""Passes telemetry to dashboards: the newest reading of every node, once a second, to the live view and the read
model. More frequent readings are dropped undecoded. Derived and short-lived: lost readings are replaced in the next
interval."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from prometheus_client import Gauge
from pydantic import ValidationError
from pydantic_core import to_json
from redis.asyncio import Redis
from redis.exceptions import RedisError

from muster.bus.gauges import BoundedLabels, LeaderGauges
from muster.bus.service import LeaderHandle
from muster.core.fact import Core, Fact
from muster.core.instant import Instant, seconds_between
from muster.projector.core import ProjectorCore
from muster.projector.transactions import transact
from muster.projector.view import can_send
from muster.projector.view_metrics import PassedMetrics, passed_metrics
from muster.projector.writer import readings
from muster.schemas.live import PUBLIC_AUDIENCE, SLICE_BYTES_MAX, Reading
from muster.schemas.readmodel import ReadModel
from muster.schemas.subjects import cluster_log, telemetry_subject, view_subject
from muster.schemas.telemetry import NodeReading

ROW_OVERHEAD_BYTES = 8  # quotes, colon, comma


def readings_row(sample: NodeReading) -> bytes:
    """Encode one node's readings by GPU place; null for an empty place."""
    places: list[Reading | None] = [None] * (1 + max((device.index for device in sample.devices), default=-1))
    for device in sample.devices:
        measured = (device.utilisation_pct, device.temperature_c, device.memory_used_mib, device.power_w)
        places[device.index] = measured
    return to_json(places)


def telemetry_messages(cluster: str, rows: Mapping[str, bytes], *, at: int) -> Iterator[bytes]:
    """Yield bodies of `LiveTelemetry` for these rows, each within the size limit. at: time of the newest reading."""
    head = b'{"cluster":%b,"at":%d,"nodes":{' % (to_json(cluster), at)
    part: list[bytes] = []
    size = 0
    for node, row in rows.items():
        entry = to_json(node) + b":" + row
        if part and size + len(entry) > SLICE_BYTES_MAX - len(head) - ROW_OVERHEAD_BYTES:
            yield head + b",".join(part) + b"}}"
            part, size = [], 0
        part.append(entry)
        size += len(entry) + 1
    if part:
        yield head + b",".join(part) + b"}}"


MODELS_MAX = 32
SILENT_S = 60.0

_REPORTING = Gauge("muster_gpus_reporting", "GPUs whose node reported recently.", ("model",))
_BUSY = Gauge("muster_gpu_utilisation_ratio", "Mean utilization of the reporting GPUs.", ("model",))
_HELD_BUSY = Gauge(
    "muster_gpu_held_utilisation_ratio", "Mean utilization of the reporting GPUs that jobs use.", ("model",)
)
_POWER = Gauge("muster_gpu_power_watts", "Total power of the reporting GPUs.", ("model",))
_HOTTEST = Gauge("muster_gpu_temperature_max_celsius", "Temperature of the hottest reporting GPU.", ("model",))


@dataclass(slots=True)
class _Sums:
    """Sums of one node: GPUs, held GPUs; their utilization in percent; power; the highest temperature."""

    gpus: int = 0
    held: int = 0
    busy_pct: float = 0.0
    held_busy_pct: float = 0.0
    power_w: float = 0.0
    hottest_c: float = 0.0

    def add(self, other: "_Sums") -> None:
        self.gpus += other.gpus
        self.held += other.held
        self.busy_pct += other.busy_pct
        self.held_busy_pct += other.held_busy_pct
        self.power_w += other.power_w
        self.hottest_c = max(self.hottest_c, other.hottest_c)


class FleetMetrics:
    """The newest report of every node, summarized by GPU model, on the leader."""

    def __init__(self) -> None:
        self._gauges = LeaderGauges()
        self._models = BoundedLabels(MODELS_MAX)
        self._shown: set[str] = set()
        self._of: dict[str, tuple[int, str, _Sums]] = {}

    def report(self, sample: NodeReading) -> None:
        """Record a node's report."""
        sums = _Sums()
        for device in sample.devices:
            is_held = bool(device.job_ids)
            sums.gpus += 1
            sums.held += is_held
            sums.busy_pct += device.utilisation_pct
            sums.held_busy_pct += device.utilisation_pct if is_held else 0.0
            sums.power_w += device.power_w
            sums.hottest_c = max(sums.hottest_c, device.temperature_c)
        self._of[sample.node] = sample.at, sample.gpu_model, sums

    def show(self) -> None:
        """Set the gauges, without nodes that were silent for `SILENT_S`. The cost grows with the number of nodes."""
        newest = max((at for at, _, _ in self._of.values()), default=0)
        by_model: defaultdict[str, _Sums] = defaultdict(_Sums)
        for node, (at, model, sums) in tuple(self._of.items()):
            if seconds_between(at, newest) > SILENT_S:
                del self._of[node]
            elif sums.gpus:
                by_model[self._models.of(model)].add(sums)
        self._shown |= by_model.keys()  # one that is gone is shown as 0
        for model in self._shown:
            sums = by_model[model]
            self._gauges.show(_REPORTING, sums.gpus, model)
            self._gauges.show(_BUSY, sums.busy_pct / 100 / max(1, sums.gpus), model)
            self._gauges.show(_HELD_BUSY, sums.held_busy_pct / 100 / max(1, sums.held), model)
            self._gauges.show(_POWER, sums.power_w, model)
            self._gauges.show(_HOTTEST, sums.hottest_c, model)

    def hide(self) -> None:
        """Hide the gauges at the end of the term."""
        self._gauges.hide()
        self._of.clear()
        self._shown.clear()


INTERVAL_S = 1.0
NODES_AT_ONCE = 200  # decoded before other tasks run
PENDING_MESSAGES_MAX = 8_192  # not handled yet; the client drops further messages
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

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:
        """Subscribe to readings."""
        assert isinstance(core, ProjectorCore), "nodes are known by a cluster's projection"
        self._closing = False
        self._subscription = await connection.subscribe(
            telemetry_subject(self.cluster, "*"),
            cb=self._take_in,
            pending_msgs_limit=PENDING_MESSAGES_MAX,
            pending_bytes_limit=PENDING_BYTES_MAX,
        )
        self._task = asyncio.create_task(self._run(core, connection, leader), name=f"telemetry-{self.cluster}")

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:  # noqa: ARG002 - the port
        """Do nothing with facts. Raises the task's failure, if any."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    async def close(self) -> None:
        """Unsubscribe and stop."""
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

    async def _run(self, core: ProjectorCore, connection: Client, leader: LeaderHandle) -> None:
        metrics = passed_metrics(cluster_log(self.cluster).stream)
        redis = Redis.from_url(self.redis_url, socket_timeout=REDIS_TIMEOUT_S, socket_connect_timeout=REDIS_TIMEOUT_S)
        try:
            while not self._closing:  # checked each round: a cancellation may be lost in the client's timeouts
                await asyncio.sleep(INTERVAL_S)
                if self._came:
                    came, self._came = self._came, {}
                    rows, at = await self._decoded(came, core, metrics)
                    await self._publish(rows, at, connection, leader, metrics)
                    self._unstored.update(rows)
                    self._fleet.show()
                await self._store(redis, core)
        finally:
            await redis.aclose()

    async def _decoded(
        self, came: dict[str, bytes], core: ProjectorCore, metrics: PassedMetrics
    ) -> tuple[dict[str, bytes], int]:
        """Return rows by node, and the time of the newest reading, without nodes that the log does not have."""
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
        self, rows: dict[str, bytes], at: int, connection: Client, leader: LeaderHandle, metrics: PassedMetrics
    ) -> None:
        subject = view_subject(self.cluster, PUBLIC_AUDIENCE, "telemetry")
        for body in telemetry_messages(self.cluster, rows, at=at):
            if not can_send(connection, leader):
                metrics.dropped.inc()
                continue
            await connection.publish(subject, body)
            metrics.sent.inc()

    async def _store(self, redis: Redis, core: ProjectorCore) -> None:
        """Store the readings for snapshots; after a failure, try again with the next ones."""
        self._unstored = {node: row for node, row in self._unstored.items() if core.has_node(node)}
        if not self._unstored:
            return
        try:
            await transact(redis, (readings(self.model, self._unstored),))
        except (RedisError, OSError, TimeoutError) as error:
            _log.info("telemetry of %s was not stored in the read model: %s", self.cluster, error)
            return
        self._unstored.clear()
