"""Forgets the beginning of the centre's copies of clusters' logs, which would fill up and take no more.

A copy is trimmed as its original may be: up to the older of the cluster's kept checkpoints, and nothing that is younger
than `federation.copies_keep_s`. It needs no archive, as the original is the cell's to keep. What the centre has yet to
take from it stays: reports for the federation, and events that a webhook has yet to be told. A copy that is nearly full
keeps what a start and the federation need, and nothing else: if it took no more, the whole centre would stand still.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from nats.aio.client import Client

from muster.bus import jsapi
from muster.bus.checkpoint import CheckpointError, CheckpointUnavailableError
from muster.bus.checkpoint_store import CopiedCheckpoints
from muster.bus.clock import SystemTime
from muster.bus.declaration import Declaration
from muster.bus.ports import ApiError, LogError
from muster.bus.service import Connect
from muster.bus.settings import Settings
from muster.core.instant import NS_PER_S, Instant
from muster.schemas.subjects import FED_UP_LOG, cluster_log

SERVICE = "federation"
LOOK_S = 600.0
"""Between two looks at the copies."""

NEARLY_FULL = 0.8
"""Of what a copy may hold."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a copy stands, in sequences. first: that it holds, 0 if none. checkpoint: the older of those kept,
    0 if there is none. told: up to there every webhook was told; None: all of it. filled: part of what it may hold.
    reported: the federation has taken every report.
    """

    first: int
    checkpoint: int
    told: int | None
    filled: float
    reported: bool


def bound(standing: Standing) -> int:
    """Up to where the copy may be forgotten, whatever its age; 0: nothing."""
    if not standing.reported:
        return 0
    is_full = standing.filled >= NEARLY_FULL
    up_to = standing.checkpoint if standing.told is None or is_full else min(standing.checkpoint, standing.told)
    return up_to if up_to >= standing.first else 0


async def newest_before(time_of: Callable[[int], Awaitable[Instant]], *, first: int, last: int, before: Instant) -> int:
    """The newest sequence from `first` to `last` that is older than `before`; 0 if none is. Halves what is left."""
    if first > last or await time_of(first) >= before:
        return 0
    low, high = first, last
    while low < high:
        middle = (low + high + 1) // 2
        if await time_of(middle) < before:
            low = middle
        else:
            high = middle - 1
    return low


class CopyTrimmer:
    """The hosted piece (`bus.service.Hosted`) of a centre: runs until it is cancelled."""

    def __init__(self, declaration: Declaration, *, look_s: float = LOOK_S) -> None:
        self.declaration = declaration
        self._look_s = look_s

    async def run(self, connect: Connect, settings: Settings) -> None:
        """Look at every copy, now and then. What cannot be looked at now is looked at later."""
        client = await connect(SERVICE)
        while True:
            for cluster in settings.clusters:
                try:
                    up_to = await trim_copy(
                        client, cluster, keep_s=settings.federation.copies_keep_s, now=Instant(SystemTime().wall())
                    )
                except (LogError, ApiError, CheckpointError, CheckpointUnavailableError) as error:
                    _logger.info("the copy of %s cannot be looked at now: %s", cluster, error)
                    continue
                if up_to:
                    _logger.info("the copy of %s begins at %d now", cluster, up_to + 1)
            await asyncio.sleep(self._look_s)


async def trim_copy(client: Client, cluster: str, *, keep_s: float, now: Instant) -> int:
    """Forget what is older than `keep_s` and needed by nobody; the last sequence that was forgotten, 0 if none was.

    Raises ApiError, LogUnavailableError, CheckpointError, CheckpointUnavailableError.
    """
    stream = cluster_log(cluster).stream
    standing = await _standing(client, cluster)
    up_to = bound(standing)
    if up_to and standing.filled < NEARLY_FULL:

        async def time_of(seq: int) -> Instant:
            found = await jsapi.message_at(client, stream, seq)
            return found.time if found is not None else Instant(0)  # it is gone: somebody else was faster

        before = Instant(now - round(keep_s * NS_PER_S))
        up_to = await newest_before(time_of, first=standing.first, last=up_to, before=before)
    if up_to:
        await jsapi.call(client, f"STREAM.PURGE.{stream}", {"seq": up_to + 1})
    return up_to


async def _standing(client: Client, cluster: str) -> Standing:
    stream = cluster_log(cluster).stream
    info = await jsapi.stream_info(client, stream)
    reports = await jsapi.stream_info(client, FED_UP_LOG.stream)
    if info is None or reports is None or not info.state.messages:
        return Standing(first=0, checkpoint=0, told=None, filled=0.0, reported=False)
    pointer, _ = await CopiedCheckpoints(client, cluster).pointer(stream)
    told = [
        one.ack_floor.stream_seq
        for one in await jsapi.consumers(client, stream)
        if one.config.durable_name and (one.num_pending or one.num_ack_pending)
    ]
    bytes_max = info.config.get("max_bytes")
    return Standing(
        first=info.state.first_seq,
        checkpoint=min((one.seq for one in pointer.checkpoints), default=0),
        told=min(told, default=None),
        filled=info.state.bytes / bytes_max if isinstance(bytes_max, int) and bytes_max > 0 else 0.0,
        reported=any(source.name == stream and not source.lag for source in reports.sources),
    )
