"""Listens to readings of GPUs while health leads, shows them to the fault detector, and wakes the core for signals.

Readings are decoded as they come: a fault must reach the scheduler within a second. They are derived and short-lived:
what is lost comes again with the next interval.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from pydantic import ValidationError

from muster.bus.service import LeaderHandle
from muster.core.fact import Core, Fact
from muster.core.instant import Instant
from muster.health.core.core import HealthCore
from muster.health.metrics import HealthMetrics
from muster.schemas.subjects import telemetry_subject
from muster.schemas.telemetry import NodeSample

PENDING_MESSAGES_MAX = 16_384
"""Readings not looked at yet; more are dropped by the client, the next interval brings newer ones."""
PENDING_BYTES_MAX = 64 * 1024 * 1024

_log = logging.getLogger(__name__)


@dataclass
class ReadingsSink:
    """Implements `muster.bus.service.Sink`. listens: readings are looked at; else only metrics are kept."""

    cluster: str
    listens: bool = True
    metrics: HealthMetrics = field(default_factory=HealthMetrics)
    _core: HealthCore | None = None
    _leader: LeaderHandle = field(default_factory=LeaderHandle)
    _subscription: Subscription | None = None

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:
        """Begin to listen."""
        assert isinstance(core, HealthCore), "these are health's readings"
        self._core, self._leader = core, leader
        if self.listens:
            self._subscription = await connection.subscribe(
                telemetry_subject(self.cluster, "*"),
                cb=self._take_in,
                pending_msgs_limit=PENDING_MESSAGES_MAX,
                pending_bytes_limit=PENDING_BYTES_MAX,
            )

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:  # noqa: ARG002 - the port
        """Count what was told, and show what health believes; it changes with facts alone."""
        for fact in facts:
            self.metrics.count(fact)
        if self._core is not None and facts:
            self.metrics.show(self._core.verdicts)

    async def close(self) -> None:
        """Listen no more."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with suppress(nats.errors.Error):  # the connection may be gone, and the subscription with it
                await subscription.unsubscribe()
        self.metrics.hide()

    async def _take_in(self, message: Msg) -> None:
        self.look(message.data)

    def look(self, body: bytes) -> None:
        """One reading."""
        if self._core is None:
            return
        try:
            sample = NodeSample.model_validate_json(body)
        except ValidationError:
            self.metrics.unreadable()
            return
        self.metrics.looked()
        if self._core.observe(sample, self._leader.now()):
            self._leader.wake()
