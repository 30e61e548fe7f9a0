"""The live view's sender: a task beside the fold that tells dashboards what changed, a slice at a time.

It needs the broker and nothing else: no read model, and no dashboard that listens. While the broker is away or slow,
what changed stays in the core, which bounds it, and goes out together; after a while it is dropped and counted, and the
next slice that goes out shows that something is missing.
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
"""At least so long from one slice to the next: what comes in between goes together."""
PENDING_BYTES_MAX = 4 * 1024 * 1024
"""Bytes that the connection has yet to send; with more, nothing is added."""
HELD_S_MAX = 5.0
"""What could not be sent for so long is dropped: dashboards do better with a new snapshot."""

PACK_LEVEL = 1  # a quarter to an eighth of the bytes for each who listens, at some 15 ms of work per MB
PACK_INLINE_BYTES = 16_384  # what is longer is packed in a thread: zlib works without the interpreter's lock


def can_send(connection: Client, leader: LeaderHandle) -> bool:
    """Only a leader tells, and only while the broker takes it."""
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
        """Begin where the core stands; whoever was told less takes a new snapshot."""
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
        """There may be something to tell. Raises what ended the sender, if something did."""
        if self.has_ended and self._task is not None:
            self._task.result()
        if facts:
            self._wake.set()

    @property
    def has_ended(self) -> bool:
        """Whether something ended the sender."""
        return self._task is not None and self._task.done() and not self._task.cancelled()

    async def close(self) -> None:
        """Tell no more: another one leads, or nobody."""
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
    """Takes what changed from the core, and publishes it."""

    core: Projection
    connection: Client
    leader: LeaderHandle
    chains: LiveChains
    cluster: str
    time: TimeSource
    metrics: ViewMetrics
    sent_s: float

    async def send(self) -> None:
        """One slice for everybody who is to be told something, or a pulse."""
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
        for one in slices:  # the broker passes on what somebody listens to, and drops the other
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
