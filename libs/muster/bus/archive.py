"""A log as a file: gzip, one JSON object per line. For backup, restore, bug reports, and before every trim.

First line: {"format", "version", "stream"}. Then one line per message: {"seq", "time" (ns since the Unix epoch),
"subject", "headers", "body" (text) or "body_base64"}. Last line: {"messages", "first_seq", "last_seq"}; a file without
it was cut off.
"""

import base64
import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self

import nats.errors
from nats.aio.client import Client
from pydantic import BaseModel, ConfigDict, ValidationError

from muster.bus import jsapi
from muster.bus.batches import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX
from muster.bus.counters import LogCounters
from muster.bus.errors import ArchiveError
from muster.bus.feed import Delivered
from muster.bus.ports import LogUnavailableError
from muster.bus.reader import RawReader
from muster.schemas.registry import StreamRole
from muster.schemas.subjects import LogName

FORMAT = "muster-log"
COMPRESSION_LEVEL = 4
READ_MESSAGES = 1000
STALL_S = 10.0
"""An export gives up after so long without a message."""
COMMIT_TIMEOUT_S = 10.0
_SOURCE = "Nats-Stream-Source"  # "<stream> <sequence there> ..."; only the broker may write it (10227)
_NOT_RESTORED = ("nats-batch-", "nats-expected-", _SOURCE.lower())  # guards of the append that was, and the above

Progress = Callable[[int, int], None]
"""Called with messages done and messages in all."""


@dataclass(frozen=True, slots=True)
class Archived:
    """What an archive holds. Sequences are 0 if it is empty."""

    messages: int
    first_seq: int
    last_seq: int


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Head(_Line):
    format: Literal["muster-log"]
    version: Literal[1]
    stream: str


class ArchivedMessage(_Line):
    """One message as it stood in its stream. time: the broker's, ns since the Unix epoch."""

    seq: int
    time: int
    subject: str
    headers: dict[str, str]
    body: str | None = None
    body_base64: str | None = None

    @property
    def content(self) -> bytes:
        """The body's bytes."""
        return self.body.encode() if self.body is not None else base64.b64decode(self.body_base64 or "")


class _Tail(_Line):
    messages: int
    first_seq: int
    last_seq: int


class _ArchiveWriter:
    """Writes beside the target and moves there when whole, so that no half archive bears the name of a whole one."""

    def __init__(self, path: Path, stream: str) -> None:
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._file: IO[bytes] = self._part.open("wb")
        self._packed = gzip.GzipFile(fileobj=self._file, mode="wb", compresslevel=COMPRESSION_LEVEL, mtime=0)
        self._count = self._first = self._last = 0
        self._line(_Head(format=FORMAT, version=1, stream=stream))

    def add(self, delivered: Delivered) -> None:
        message, at = delivered.message, delivered.at
        headers = {str(name): value for name, value in (message.headers or {}).items()}
        body, encoded = _readable(message.data)
        self._line(
            ArchivedMessage(
                seq=at.seq, time=at.time, subject=message.subject, headers=headers, body=body, body_base64=encoded
            )
        )
        self._count += 1
        self._first = self._first or at.seq
        self._last = at.seq

    def finish(self) -> Archived:
        self._line(_Tail(messages=self._count, first_seq=self._first, last_seq=self._last))
        self._packed.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._part.replace(self._path)
        return Archived(self._count, self._first, self._last)

    def _line(self, line: _Line) -> None:
        self._packed.write(line.model_dump_json(exclude_none=True).encode() + b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._file.closed:
            self._file.close()
            self._part.unlink(missing_ok=True)


def _readable(body: bytes) -> tuple[str | None, str | None]:
    try:
        return body.decode(), None
    except UnicodeDecodeError:
        return None, base64.b64encode(body).decode()


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
        with _ArchiveWriter(path, log.stream) as writer:
            if last >= first:
                await _copy(connection, log.stream, writer, (first, last), progress)
            return writer.finish()
    except OSError as error:
        raise ArchiveError(f"{path}: {error.strerror or error}; give a path that can be written") from error


async def _copy(
    connection: Client, stream: str, writer: _ArchiveWriter, span: tuple[int, int], progress: Progress | None
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


def read_archive(path: Path, stream: str) -> Iterator[ArchivedMessage]:
    """The messages of an archive of `stream`. Raises ArchiveError where it is not one, damaged, or cut off."""
    try:
        with gzip.open(path, "rb") as lines:
            told = _Head.model_validate_json(next(lines, b""))
            if told.stream != stream:
                raise ArchiveError(f"{path}: holds {told.stream}, not {stream}")
            count = 0
            for line in lines:
                if line.startswith(b'{"messages"'):
                    if _Tail.model_validate_json(line).messages != count:
                        raise ArchiveError(f"{path}: holds {count} messages, its last line says otherwise")
                    return
                count += 1
                yield ArchivedMessage.model_validate_json(line)
    except (OSError, EOFError, zlib.error, ValidationError) as error:
        raise ArchiveError(f"{path}: no archive of a log, or damaged: {error}") from error
    raise ArchiveError(f"{path}: cut off after {count} messages")


async def import_log(connection: Client, log: LogName, path: Path, *, progress: Progress | None = None) -> int:
    """Store an archive's messages in an empty stream, in their order, with their ids and sequences; returns how many.

    Times are the broker's own. The whole file is checked before the first message is stored. What the stream takes
    from others goes on after what the archive holds of them. After an error, delete the stream and begin again.
    Raises ArchiveError (also if the stream ever held a message), LogUnavailableError, ApiError (storage full).
    """
    info = await _empty_stream(connection, log)
    total, first_seq, taken = 0, 1, dict[str, int]()
    for message in read_archive(path, log.stream):
        first_seq = first_seq if total else message.seq
        total += 1
        if _SOURCE in message.headers:
            origin, seq, *_ = message.headers[_SOURCE].split(" ")
            taken[origin] = int(seq)
    if not total:
        return 0
    sources = info.config.get("sources")
    if sources:
        await _configure(connection, info, [])
    if first_seq > 1:
        await jsapi.call(connection, f"STREAM.PURGE.{log.stream}", {"seq": first_seq})
    await _store_all(connection, read_archive(path, log.stream), lambda done: progress and progress(done, total))
    if isinstance(sources, list):
        await _configure(connection, info, [_resumed(source, taken) for source in sources])
    return total


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
    """The source, going on after what was taken from it."""
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
    """One atomic batch, at the sequences that it had."""
    for index, message in enumerate(batch, 1):
        headers = {name: value for name, value in message.headers.items() if not name.lower().startswith(_NOT_RESTORED)}
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
    if ack.seq != batch[-1].seq:
        raise ArchiveError(f"message {batch[-1].seq} was stored at {ack.seq}: the archive has a hole before it")
    return len(batch)
