"""Export of a log into a file, import into an empty log, and trim of an archived log.

The file's format and its checks are in `archive_file`.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import nats.errors
from nats.aio.client import Client

from muster.bus import jsapi
from muster.bus.appender import newest_fence
from muster.bus.archive_file import Archived, ArchivedMessage, ArchiveLimits, ArchiveWriter, read_archive
from muster.bus.batches import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX
from muster.bus.ports import ArchiveError, LogCounters, LogUnavailableError, TrimRefusedError
from muster.bus.reader import RawReader
from muster.core.instant import Instant, seconds_between
from muster.schemas.registry import StreamRole
from muster.schemas.subjects import FENCE, LogName

READ_MESSAGES = 1000
STALL_S = 10.0
"""An export fails after this time without a message."""
COMMIT_TIMEOUT_S = 10.0
FENCE_RENEWAL_S = 3600.0
FENCE_LIVE_S = 2 * FENCE_RENEWAL_S
"""An idle leader renews its fence every FENCE_RENEWAL_S; a fence older than this has no leader."""


Progress = Callable[[int, int], None]
"""Called with messages done and messages in all."""


async def export_log(
    connection: Client,
    log: LogName,
    path: Path,
    *,
    after_seq: int = 0,
    up_to_seq: int | None = None,
    progress: Progress | None = None,
) -> Archived:
    """Write the messages after `after_seq` up to `up_to_seq` (the head, if None) to `path`; replaces what is there.

    Raises ArchiveError (the file cannot be written), LogUnavailableError, FactsMissingError, ApiError.
    """
    info = await jsapi.stream_info(connection, log.stream)
    if info is None:
        raise ArchiveError(f"there is no stream {log.stream}")
    first = max(info.state.first_seq, after_seq + 1)
    last = info.state.last_seq if up_to_seq is None else up_to_seq
    try:
        with ArchiveWriter(path, log.stream) as writer:
            if last >= first:
                await _copy(connection, log.stream, writer, (first, last), progress)
            return writer.finish()
    except OSError as error:
        raise ArchiveError(f"{path}: {error.strerror or error}; give a path that can be written") from error


async def _copy(
    connection: Client, stream: str, writer: ArchiveWriter, span: tuple[int, int], progress: Progress | None
) -> None:
    first, last = span
    reader = RawReader(connection, stream, after_seq=first - 1, counters=LogCounters())
    seq = first - 1
    try:
        await reader.open()
        while seq < last:
            if not await reader.fill(STALL_S):
                raise LogUnavailableError(f"{stream}: no message after {seq} within {STALL_S:g} s")
            taken = tuple(islice(reader.waiting, READ_MESSAGES))
            for delivered in taken:
                if delivered.at.seq <= last:
                    writer.add(delivered)
            seq = taken[-1].at.seq
            await reader.take(len(taken))
            if progress is not None:
                progress(min(seq, last) - first + 1, last - first + 1)
    finally:
        await reader.close()


async def import_log(connection: Client, log: LogName, path: Path, *, progress: Progress | None = None) -> int:
    """Store an archive's messages in an empty stream, in their order, with their ids and sequences.

    Returns how many messages the stream then holds. Times are the broker's own. The whole file is checked before the
    first message is stored. What the stream takes from others goes on after what the archive holds of them. After an
    error, delete the stream and begin again.
    Raises ArchiveError (also if the stream ever held a message), LogUnavailableError, ApiError (storage full).
    """
    info = await _empty_stream(connection, log)
    limits = _limits(connection, info)
    total, first_seq, taken = 0, 1, dict[str, int]()
    for message in read_archive(path, log, limits):
        first_seq = first_seq if total else message.seq
        total += 1
        if message.source is not None:
            origin, seq = message.source
            taken[origin] = seq
    if not total:
        return 0
    sources = info.config.get("sources")
    if sources:
        await _configure(connection, info, [])
    if first_seq > 1:
        await jsapi.call(connection, f"STREAM.PURGE.{log.stream}", {"seq": first_seq})
    await _store_all(connection, read_archive(path, log, limits), lambda done: progress and progress(done, total))
    stored = await _stored(connection, log, total)
    if isinstance(sources, list):
        await _configure(connection, info, [_resumed(source, taken) for source in sources])
    return stored


def _limits(connection: Client, info: jsapi.StreamInfo) -> ArchiveLimits:
    bytes_max = info.config.get("max_bytes")
    if not isinstance(bytes_max, int) or bytes_max <= 0:
        raise ArchiveError(f"{info.config['name']} has no max_bytes; run bootstrap, which sets one, then import")
    return ArchiveLimits(message_bytes=connection.max_payload, log_bytes=bytes_max)


async def _stored(connection: Client, log: LogName, total: int) -> int:
    """Return how many messages the broker holds. Raises ArchiveError if those are not the archive's."""
    info = await jsapi.stream_info(connection, log.stream)
    held = info.state.messages if info is not None else 0
    if held != total:
        raise ArchiveError(
            f"{log.stream} holds {held} messages after {total} were sent; delete the stream and begin again"
        )
    return held


async def _empty_stream(connection: Client, log: LogName) -> jsapi.StreamInfo:
    if log.role is StreamRole.FED_UP:
        raise ArchiveError(f"{log.stream} only takes from other streams; import those")
    info = await jsapi.stream_info(connection, log.stream)
    if info is None:
        raise ArchiveError(f"there is no stream {log.stream}; run bootstrap first")
    if info.state.last_seq:
        raise ArchiveError(
            f"{log.stream} holds or held {info.state.last_seq} messages; an archive goes into an empty stream only"
        )
    return info


async def _configure(connection: Client, info: jsapi.StreamInfo, sources: list[object]) -> None:
    name = str(info.config["name"])
    await jsapi.call(connection, f"STREAM.UPDATE.{name}", {**info.config, "sources": sources})


def _resumed(source: object, taken: Mapping[str, int]) -> object:
    """Return the source with its start after the messages that were already taken from it."""
    if not isinstance(source, dict) or source.get("name") not in taken:
        return source
    return {**source, "opt_start_seq": taken[source["name"]] + 1}


async def _store_all(connection: Client, messages: Iterator[ArchivedMessage], report: Callable[[int], object]) -> None:
    done, batch, weight = 0, list[ArchivedMessage](), 0
    for message in messages:
        size = len(message.content)
        if batch and (len(batch) == BATCH_MESSAGES_MAX or weight + size > BATCH_BYTES_MAX):
            done += await _store(connection, batch)
            batch, weight = [], 0
            report(done)
        batch.append(message)
        weight += size
    report(done + await _store(connection, batch))


async def _store(connection: Client, batch: list[ArchivedMessage]) -> int:
    """Store one atomic batch at its original sequences."""
    for index, message in enumerate(batch, 1):
        headers = message.restored_headers
        headers |= {"Nats-Batch-Id": f"import-{batch[0].seq}", "Nats-Batch-Sequence": str(index)}
        if index < len(batch):
            try:
                await connection.publish(message.subject, message.content, headers=headers)
            except (nats.errors.Error, OSError) as error:
                raise LogUnavailableError(f"{type(error).__name__} at message {message.seq}") from error
            continue
        headers["Nats-Batch-Commit"] = "1"
        reply = await jsapi.ask(
            connection, message.subject, message.content, headers=headers, timeout_s=COMMIT_TIMEOUT_S
        )
    ack = jsapi.PubAck.model_validate_json(jsapi.check(reply.data))
    if (ack.seq, ack.count) != (batch[-1].seq, len(batch)):
        raise ArchiveError(
            f"message {batch[-1].seq} was stored at {ack.seq} as the last of {ack.count}, sent were {len(batch)}: "
            "something else writes to the stream; delete it and begin again"
        )
    return len(batch)


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
    """Refuse to purge a live leader's fence: its appends would fail forever, expecting a sequence that is gone."""
    pattern = f"muster.{log.scope}.*.{FENCE}"
    info = await jsapi.stream_info(connection, log.stream, subjects=pattern)
    for subject in info.state.subjects if info else ():
        service = subject.split(".")[2]
        fence = await newest_fence(connection, log, service)
        if fence is not None and fence.seq <= up_to_seq and seconds_between(fence.time, now) < FENCE_LIVE_S:
            raise TrimRefusedError(f"{log.stream}: message {fence.seq} is the live fence {subject}; trim less")
