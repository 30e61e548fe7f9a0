"""Jobs' output on its way to their teams' dashboards, as it came. Bounded: what is more is dropped."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from muster.bus.clock import TimeSource
from muster.bus.service import LeaderHandle
from muster.core.fact import Core, Fact
from muster.core.instant import Instant
from muster.projector.core import Projection
from muster.projector.view import can_send
from muster.projector.view_metrics import passed_metrics
from muster.schemas.live import PUBLIC_AUDIENCE
from muster.schemas.subjects import cluster_log, output_subject, view_subject

WINDOW_S = 1.0
JOB_BYTES_MAX = 128 * 1024  # of one job in one window
BYTES_MAX = 4 * 1024 * 1024  # of all jobs in one window
PENDING_MESSAGES_MAX = 8_192  # not taken in yet; more are dropped by the client
PENDING_BYTES_MAX = 16 * 1024 * 1024


@dataclass
class Allowance:
    """How much may pass in one window. Pure: times are arguments."""

    job_bytes_max: int = JOB_BYTES_MAX
    bytes_max: int = BYTES_MAX
    _until_s: float = float("-inf")
    _all: int = 0
    _by_job: dict[str, int] = field(default_factory=dict)

    def takes(self, job_id: str, size: int, *, now_s: float) -> bool:
        """Whether a message of this size may still pass; if so, it has."""
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
    """Implements `muster.bus.service.Sink`, for the output beside one cluster's log."""

    cluster: str
    time: TimeSource
    _subscription: Subscription | None = None

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:
        """Begin to pass on."""
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
        """Nothing follows from facts."""

    async def close(self) -> None:
        """Pass on no more."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with suppress(nats.errors.Error):  # the connection may be gone, and the subscription with it
                await subscription.unsubscribe()
