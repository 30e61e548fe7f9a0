"""Forget the beginning of a log: archived first, by an explicit purge, never what is young or still guards anybody."""

from pathlib import Path

from nats.aio.client import Client

from muster.bus import jsapi
from muster.bus.archive import Progress, export_log
from muster.bus.archive_file import Archived
from muster.bus.errors import TrimRefusedError
from muster.bus.fences import newest_fence
from muster.core.instant import Instant, seconds_between
from muster.schemas.subjects import FENCE, LogName

FENCE_RENEWAL_S = 3600.0
FENCE_LIVE_S = 2 * FENCE_RENEWAL_S
"""An idle leader renews its fence every FENCE_RENEWAL_S; a fence older than this has no leader."""


async def trim(
    connection: Client,
    log: LogName,
    *,
    up_to_seq: int,
    keep_s: float,
    now: Instant,
    archive: Path,
    progress: Progress | None = None,
) -> Archived:
    """Archive everything up to `up_to_seq`, then purge it. The caller has a checkpoint at or after `up_to_seq`.

    keep_s: refuses to purge what is younger. now: for the ages, as the broker's clock counts.
    Raises TrimRefusedError and FenceBrokenError before anything was done; ArchiveError, LogUnavailableError, ApiError
    before the purge.
    """
    await _refuse_young(connection, log, up_to_seq, keep_s, now)
    await _refuse_live_fences(connection, log, up_to_seq, now)
    archived = await export_log(connection, log, archive, up_to_seq=up_to_seq, progress=progress)
    await jsapi.call(connection, f"STREAM.PURGE.{log.stream}", {"seq": up_to_seq + 1})
    return archived


async def _refuse_young(connection: Client, log: LogName, up_to_seq: int, keep_s: float, now: Instant) -> None:
    newest = await jsapi.message_at(connection, log.stream, up_to_seq)
    if newest is None:
        raise TrimRefusedError(f"{log.stream} holds no message {up_to_seq}; name one that it holds")
    age_s = seconds_between(newest.time, now)
    if age_s < keep_s:
        raise TrimRefusedError(
            f"{log.stream}: message {up_to_seq} is {age_s:.0f} s old, messages are kept for {keep_s:g} s; trim less"
        )


async def _refuse_live_fences(connection: Client, log: LogName, up_to_seq: int, now: Instant) -> None:
    """A leader whose fence is gone would be refused for ever: it expects a sequence that no subject has."""
    pattern = f"muster.{log.scope}.*.{FENCE}"
    info = await jsapi.stream_info(connection, log.stream, subjects=pattern)
    for subject in info.state.subjects if info else ():
        service = subject.split(".")[2]
        fence = await newest_fence(connection, log, service)
        if fence is not None and fence.seq <= up_to_seq and seconds_between(fence.time, now) < FENCE_LIVE_S:
            raise TrimRefusedError(f"{log.stream}: message {fence.seq} is the live fence {subject}; trim less")
