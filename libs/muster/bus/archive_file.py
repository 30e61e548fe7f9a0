"""A log as a file: gzip, one JSON object per line. For backup, restore, bug reports, and before every trim.

First line: {"format", "version", "stream"}. Then one line per message: {"seq", "time" (ns since the Unix epoch),
"subject", "headers", "body" (text) or "body_base64"}. Last line: {"messages", "first_seq", "last_seq"}; a file without
it was cut off.

Archives are untrusted input, so a reader accepts only what this log's broker could have stored: subjects of the log, no
header that the broker acts on, no more bytes than the log may hold.
"""

import base64
import gzip
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from muster.bus.feed import Delivered
from muster.bus.ports import ArchiveError
from muster.schemas import envelope
from muster.schemas.base import FACT_BYTES_MAX
from muster.schemas.subjects import LogName

FORMAT = "muster-log"
COMPRESSION_LEVEL = 4
FILE_MODE = 0o600
SOURCE_HEADER = "Nats-Stream-Source"
"""`<stream> <sequence there> ...`: where the broker took a message from. Only the broker may write it (10227)."""
SEQ_MAX = 2**53
"""Beyond any real log, and far from the end of the broker's 64 bits, where nothing more could be stored."""
ESCAPED_MAX = 6
"""Bytes that JSON may need for one byte of a message: a control character becomes `\\u0000`."""
LINE_OVERHEAD_BYTES = 4096
"""Bytes of a line beside its message: the names of its fields and of its headers."""

_BROKER_PREFIX = "nats-"
_LEFT_OUT = ("nats-batch-", "nats-expected-", "nats-pending-", SOURCE_HEADER.lower())
"""Headers that are not stored again: guards of the original append, and headers that only the broker writes."""
_RESTORED = envelope.HEADER_MSG_ID.lower()
_SUBJECT_TOKENS = re.compile(r"[^\s.*>\x00-\x1f\x7f-\x9f]+(\.[^\s.*>\x00-\x1f\x7f-\x9f]+)*")
_HEADER_NAME = re.compile(r"[!-9;-~]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_Line_ = TypeVar("_Line_", bound="_Line")


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """Size limits for reading an archive."""

    message_bytes: int
    """Largest message: the broker's max_payload."""
    log_bytes: int
    """Maximum bytes of all messages: the stream's max_bytes."""

    @property
    def line_bytes(self) -> int:
        """Return the longest line that one message can need."""
        return ESCAPED_MAX * self.message_bytes + LINE_OVERHEAD_BYTES


READ_LIMITS = ArchiveLimits(message_bytes=2 * FACT_BYTES_MAX, log_bytes=64 * 1024**3)
"""Limits for archives that are read without a broker."""


@dataclass(frozen=True, slots=True)
class Archived:
    """Contents of an archive. Sequences are 0 if it is empty."""

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
    """One message as stored in its stream."""

    seq: Annotated[int, Field(ge=1, le=SEQ_MAX)]
    time: Annotated[int, Field(ge=0)]
    """When the broker stored it, in ns since the Unix epoch."""
    subject: str
    headers: dict[str, str]
    body: str | None = None
    body_base64: str | None = None

    @property
    def content(self) -> bytes:
        """Return the bytes of the body."""
        return self.body.encode() if self.body is not None else base64.b64decode(self.body_base64 or "")

    @property
    def restored_headers(self) -> dict[str, str]:
        """Return the headers without the guards of the append that was and without the broker's own."""
        return {name: value for name, value in self.headers.items() if not _is_left_out(name)}

    @property
    def source(self) -> tuple[str, int] | None:
        """Return the stream that it was taken from, and its sequence there; None if it was written here."""
        told = self.headers.get(SOURCE_HEADER)
        if told is None:
            return None
        stream, _, rest = told.partition(" ")
        return stream, int(rest.partition(" ")[0])


class _Tail(_Line):
    messages: int
    first_seq: int
    last_seq: int


class ArchiveWriter:
    """Writes beside the target and moves there when whole, so that no half archive bears the name of a whole one.

    Only the owner may read the file: it holds every job's specification.
    """

    def __init__(self, path: Path, stream: str) -> None:
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._part.unlink(missing_ok=True)
        opened = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
        self._file: IO[bytes] = os.fdopen(opened, "wb")
        self._packed = gzip.GzipFile(fileobj=self._file, mode="wb", compresslevel=COMPRESSION_LEVEL, mtime=0)
        self._count = self._first = self._last = 0
        self._line(_Head(format=FORMAT, version=1, stream=stream))

    def add(self, delivered: Delivered) -> None:
        """Write one message."""
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
        """Write the last line and give the file its name."""
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


def read_archive(path: Path, log: LogName, limits: ArchiveLimits = READ_LIMITS) -> Iterator[ArchivedMessage]:
    """Yield the messages of an archive of `log`, each checked.

    Raises ArchiveError, which names the line and the field, where the file is no archive, damaged, cut off, or holds
    what this log cannot hold.
    """
    try:
        with gzip.open(path, "rb") as lines:
            yield from _messages(_bounded(lines, limits.line_bytes), log, limits)
    except (OSError, EOFError, zlib.error) as error:
        raise ArchiveError(f"{path}: no archive of a log, or damaged: {error}") from error
    except ArchiveError as error:
        raise ArchiveError(f"{path}: {error}") from error


def _bounded(lines: gzip.GzipFile, line_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines; no more of one is unpacked than may be."""
    number = 0
    while line := lines.readline(line_bytes + 1):
        number += 1
        if len(line) > line_bytes:
            raise ArchiveError(f"line {number}: longer than the {line_bytes} bytes that the largest message needs")
        yield number, line


def _messages(lines: Iterator[tuple[int, bytes]], log: LogName, limits: ArchiveLimits) -> Iterator[ArchivedMessage]:
    _, line = next(lines, (1, b""))
    stream = _parsed(_Head, 1, line).stream
    if stream != log.stream:
        raise ArchiveError(f"line 1: stream: holds {stream[:100]!a}, not {log.stream}")
    count = weight = last = 0
    for number, line in lines:
        if line.startswith(b'{"messages"'):
            if _parsed(_Tail, number, line).messages != count:
                raise ArchiveError(f"line {number}: messages: there are {count}, the line says otherwise")
            return
        message = _parsed(ArchivedMessage, number, line)
        if count and message.seq != last + 1:
            raise ArchiveError(f"line {number}: seq: {message.seq} after {last}; a log has no holes")
        wrong = _wrong(message, log, limits)
        if wrong:
            raise ArchiveError(f"line {number}: {wrong}")
        weight += _size(message)
        if weight > limits.log_bytes:
            raise ArchiveError(f"line {number}: more bytes than {log.stream} may hold (max_bytes {limits.log_bytes})")
        count, last = count + 1, message.seq
        yield message
    raise ArchiveError(f"cut off after {count} messages")


def _parsed(kind: type[_Line_], number: int, line: bytes) -> _Line_:
    try:
        return kind.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        field = ascii(".".join(str(part) for part in first["loc"])[:100])[1:-1] or "JSON"
        raise ArchiveError(f"line {number}: {field}: {first['msg']}") from error


def _wrong(message: ArchivedMessage, log: LogName, limits: ArchiveLimits) -> str:
    """Return the field that no message of this log has so, and why; "" if all are well."""
    own = log.subjects.removesuffix(">")
    if not message.subject.startswith(own) or not _SUBJECT_TOKENS.fullmatch(message.subject):
        return f"subject: {message.subject[:200]!a} is none of {log.subjects}"
    try:
        if (message.body is None) == (message.body_base64 is None):
            return "body: give either body or body_base64"
        base64.b64decode(message.body_base64 or "", validate=True)
    except ValueError:
        return "body_base64: is no base64"
    wrong = next((ascii(name[:100])[1:-1] + why for name, why in _wrong_headers(message.headers)), "")
    if not wrong and _size(message) > limits.message_bytes:
        return f"body: {_size(message)} bytes with headers, the broker takes {limits.message_bytes}"
    return wrong


def _wrong_headers(headers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or _CONTROL.search(value):
            yield name, ": a header's name and value hold no control characters"
        elif name.lower() == SOURCE_HEADER.lower():
            if name != SOURCE_HEADER or not re.fullmatch(r"[^ ]+ [0-9]{1,16}( .*)?", value):
                yield name, ": is not `<stream> <sequence>`"
        elif name.lower().startswith(_BROKER_PREFIX) and not name.lower().startswith((*_LEFT_OUT, _RESTORED)):
            yield name, ": the broker acts on this header, and no log of Muster has it"


def _is_left_out(name: str) -> bool:
    return name.lower().startswith(_LEFT_OUT)


def _size(message: ArchivedMessage) -> int:
    fields = sum(len(name) + len(value.encode()) + 4 for name, value in message.restored_headers.items())
    return len(message.subject) + fields + len(message.content)
