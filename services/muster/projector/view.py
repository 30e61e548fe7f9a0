"""Sends the live view: a task beside the fold that publishes changes to dashboards, one slice at a time.

It needs only the broker, neither the read model nor a listening dashboard. While the broker is unavailable or slow,
changes stay in the core, within bounds, and are sent together; after a while they are dropped and counted, and the
next slice shows the gap.
"""

import asyncio
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from nats.aio.client import Client

from muster.bus.clock import TimeSource
from muster.bus.service import LeaderHandle
from muster.core.fact import Core, Fact
from muster.core.instant import Instant, seconds_between
from muster.projector.core import Projection
from muster.projector.core.chains import PULSE_S, LiveChains, Slice
from muster.projector.core.changes import ViewChanges
from muster.projector.view_metrics import ViewMetrics, view_metrics
from muster.schemas.live import PUBLIC_AUDIENCE
from muster.schemas.subjects import view_subject

SLICE_S = 0.05
"""Minimum time between two slices, in seconds; changes in between are sent together."""
PENDING_BYTES_MAX = 4 * 1024 * 1024
"""Maximum number of bytes that the connection has yet to send before nothing is added."""
HELD_S_MAX = 5.0
"""Time after which unsent changes are dropped, in seconds: a new snapshot then serves dashboards better."""

PACK_LEVEL = 1  # a quarter to an eighth of the bytes per listener, for about 15 ms of work per MB
PACK_INLINE_BYTES = 16_384  # longer bodies are packed in a thread: zlib releases the interpreter's lock


def can_send(connection: Client, leader: LeaderHandle) -> bool:
    """Return whether this replica leads and the broker accepts messages."""
    return leader.leads() and connection.is_connected and connection.pending_data_size <= PENDING_BYTES_MAX


@dataclass
class ViewSink:
    """Implements `muster.bus.service.Sink`. cluster: as in the subjects, `fed` for the federation's log."""

    cluster: str
    stream: str
    time: TimeSource
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None
    _core: Projection | None = None

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:
        """Start at the core's position; dashboards behind it get a new snapshot."""
        assert isinstance(core, Projection), "this sink shows projections"
        self._core = core
        core.watch(on=True)
        sender = _Sender(
            core,
            connection,
            leader,
            LiveChains(self.cluster, seq=core.last_seq, team_seqs=core.team_seqs.items()),
            self.cluster,
            self.time,
            view_metrics(self.stream),
            self.time.monotonic_s(),
        )
        self._task = asyncio.create_task(self._run(sender), name=f"view-{self.cluster}")

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:  # noqa: ARG002 - the port
        """Wake the sender. Raises the sender's failure, if any."""
        if self.has_ended and self._task is not None:
            self._task.result()
        if facts:
            self._wake.set()

    @property
    def has_ended(self) -> bool:
        """Return whether the sender has failed."""
        return self._task is not None and self._task.done() and not self._task.cancelled()

    async def close(self) -> None:
        """Stop sending: this replica no longer leads."""
        if self._core is not None:
            self._core.watch(on=False)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self, sender: "_Sender") -> None:
        while True:
            await sender.send()
            await asyncio.sleep(SLICE_S)
            try:
                async with asyncio.timeout(PULSE_S):
                    await self._wake.wait()
            except TimeoutError:
                continue
            self._wake.clear()


@dataclass
class _Sender:
    """Takes changes from the core and publishes them."""

    core: Projection
    connection: Client
    leader: LeaderHandle
    chains: LiveChains
    cluster: str
    time: TimeSource
    metrics: ViewMetrics
    sent_s: float

    async def send(self) -> None:
        """Send one slice to every audience with changes, or a pulse."""
        now_s = self.time.monotonic_s()
        is_open = can_send(self.connection, self.leader)
        if not is_open and now_s - self.sent_s < HELD_S_MAX:
            return
        self.sent_s = now_s
        shown = self.core.take_shown(after=self.chains.seq)
        slices = self.chains.advance(shown, now_s=now_s)
        slices += self.chains.pulses(now_s=now_s)
        if not slices:
            return
        if not is_open:
            self.metrics.dropped.inc(len(slices))
            return
        for one in slices:  # the broker forwards only subjects with subscribers, and drops the rest
            await self.connection.publish(view_subject(self.cluster, one.audience, "slice"), one.body)
            packed = await _packed(one.body)
            await self.connection.publish(view_subject(self.cluster, one.audience, "packed"), packed)
        self._count(slices, shown)

    def _count(self, slices: Sequence[Slice], shown: ViewChanges) -> None:
        public = sum(one.audience == PUBLIC_AUDIENCE for one in slices)
        self.metrics.public_slices.inc(public)
        self.metrics.team_slices.inc(len(slices) - public)
        self.metrics.sent_bytes.inc(sum(len(one.body) for one in slices))
        if shown.facts:
            oldest = Instant(shown.facts[0].time)
            self.metrics.delay_s.observe(max(0.0, seconds_between(oldest, self.time.wall())))


async def _packed(body: bytes) -> bytes:
    if len(body) <= PACK_INLINE_BYTES:
        return zlib.compress(body, PACK_LEVEL)
    return await asyncio.to_thread(zlib.compress, body, PACK_LEVEL)
