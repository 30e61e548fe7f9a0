"""JetStream's API as plain requests: few of them, typed, asked from a stream's leader, with bounded waits.

nats-py's manager covers these too, but neither message time-stamps nor batches, and it turns errors into four classes.
"""

import asyncio
import base64
import json
from collections.abc import Coroutine, Mapping
from datetime import datetime

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from pydantic import BaseModel, ConfigDict, Field

from muster.bus.decode import StoredMessage
from muster.bus.names import API
from muster.bus.ports import ApiError, LogUnavailableError
from muster.core.instant import NS_PER_S, Instant

REQUEST_TIMEOUT_S = 5.0
WATCH_S = 0.5
"""Interval between checks of the connection during long requests."""

NO_MESSAGE = 10037
NO_CONSUMER = 10014
NO_STREAM = 10059
WRONG_LAST_SEQUENCE = frozenset({10071, 10164})
DUPLICATE_IN_BATCH = 10201
STORAGE_ERRORS = frozenset({10023, 10028, 10047, 10077, 10122})
"""Insufficient resources; memory or storage exceeded; store failed (`maximum bytes exceeded`); account's bytes."""

NO_STORE = 10049
"""The server could not create the store of a stream."""

MESSAGE_TOO_LARGE = frozenset({10054, 10097})
"""The body or the headers exceed the stream's limit: the same message is always refused."""

BATCH_LOST = frozenset({10176, 10211})
"""Incomplete (the server lost its beginning), or too many batches at once: nothing was stored."""
_NOT_READY = frozenset({10008, 10039, 10076})
"""JetStream is not (yet) there: the server starts, or looks for a leader."""


class _Reply(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Error(_Reply):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Failure(_Reply):
    error: _Error | None = None


class StreamState(_Reply):
    """Contents of a stream. first_seq is last_seq + 1 if it is empty."""

    messages: int
    bytes: int
    first_seq: int
    last_seq: int
    subjects: dict[str, int] = Field(default_factory=dict)


class SourceState(_Reply):
    """Progress of a source; lag is the number of messages not yet taken, as the server saw it last."""

    name: str
    lag: int = 0


class StreamInfo(_Reply):
    """A stream's configuration, as the server completed it, and its state."""

    config: dict[str, object]
    state: StreamState
    sources: tuple[SourceState, ...] = ()


class _Position(_Reply):
    consumer_seq: int = 0
    stream_seq: int = 0


class ConsumerInfo(_Reply):
    """Delivery state of a consumer."""

    name: str
    delivered: _Position
    num_pending: int = 0


class ConsumerConfig(_Reply):
    """Configuration of a consumer. durable_name: "" for a consumer that ends with its reader."""

    durable_name: str = ""


class ConsumerState(_Reply):
    """A consumer in the list of a stream's consumers, with its numbers of pending and unacknowledged messages.

    ack_floor: all messages up to it are acknowledged.
    """

    name: str
    config: ConsumerConfig = ConsumerConfig()
    ack_floor: _Position = _Position()
    num_pending: int = 0
    num_ack_pending: int = 0
    num_redelivered: int = 0


class _ConsumerList(_Reply):
    consumers: tuple[ConsumerState, ...] | None = None


class PubAck(_Reply):
    """Answer to a publication or to the commit of a batch (`seq`: its last message, `count`: how many)."""

    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    count: int = 0


class _RawMessage(_Reply):
    subject: str
    seq: int
    hdrs: str = ""
    data: str = ""
    time: str


class _RawAnswer(_Reply):
    message: _RawMessage


async def ask(
    client: Client,
    subject: str,
    body: bytes = b"",
    *,
    headers: dict[str, str] | None = None,
    timeout_s: float = REQUEST_TIMEOUT_S,
    stop: "asyncio.Future[None] | None" = None,
) -> Msg:
    """Send one request. Raises LogUnavailableError without an answer in time, a responder, or a connection.

    stop: ends the wait for an answer once it is done.
    """
    if not client.is_connected:
        raise LogUnavailableError(f"{subject}: not connected to the bus")
    request = client.request(subject, body, timeout=timeout_s, headers=headers)
    try:
        return await (_watched(client, request, stop) if timeout_s > WATCH_S else request)
    except nats.errors.NoRespondersError as error:
        raise LogUnavailableError(f"{subject}: no responder") from error
    except (nats.errors.Error, OSError) as error:
        raise LogUnavailableError(f"{subject}: {type(error).__name__}, no answer within {timeout_s:g} s") from error


async def _watched(client: Client, request: Coroutine[None, None, Msg], stop: "asyncio.Future[None] | None") -> Msg:
    """Return the answer. Raises ConnectionClosedError once the connection broke: nats-py would wait for the timeout."""
    reconnects = client.stats["reconnects"]
    answer = asyncio.ensure_future(request)
    ends: set[asyncio.Future[object]] = {answer} if stop is None else {answer, stop}  # type: ignore[arg-type]
    try:
        while not answer.done():
            await asyncio.wait(ends, timeout=WATCH_S, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done() and stop is not None and stop.done():
                raise nats.errors.BadSubjectError
            if not answer.done() and (not client.is_connected or client.stats["reconnects"] != reconnects):
                raise nats.errors.ConnectionClosedError
        return answer.result()
    finally:
        answer.cancel()


def check(body: bytes) -> bytes:
    """Return the answer. Raises ApiError if the request was refused, LogUnavailableError for a temporary failure."""
    if b'"error"' in body:
        failure = _Failure.model_validate_json(body).error
        if failure is not None and failure.err_code in _NOT_READY:
            raise LogUnavailableError(failure.description)
        if failure is not None:
            raise ApiError(failure.err_code, failure.description)
    return body


async def call(
    client: Client, path: str, request: Mapping[str, object] | None = None, *, timeout_s: float = REQUEST_TIMEOUT_S
) -> bytes:
    """Ask `$JS.API.<path>`. Raises ApiError, LogUnavailableError."""
    body = b"" if request is None else json.dumps(request).encode()
    return check((await ask(client, f"{API}.{path}", body, timeout_s=timeout_s)).data)


async def stream_info(client: Client, stream: str, *, subjects: str = "") -> StreamInfo | None:
    """Return the stream, or None if it does not exist. subjects: also count messages per matching subject."""
    request = {"subjects_filter": subjects} if subjects else None
    try:
        return StreamInfo.model_validate_json(await call(client, f"STREAM.INFO.{stream}", request))
    except ApiError as error:
        if error.err_code == NO_STREAM:
            return None
        raise


async def consumers(client: Client, stream: str) -> tuple[ConsumerState, ...]:
    """Return the consumers of a stream, one page of the list. Raises ApiError, LogUnavailableError."""
    body = await call(client, f"CONSUMER.LIST.{stream}", {"offset": 0})
    return _ConsumerList.model_validate_json(body).consumers or ()


async def last_on_subject(
    client: Client, stream: str, subject: str, *, timeout_s: float = REQUEST_TIMEOUT_S
) -> StoredMessage | None:
    """Return the newest message on one subject, from the stream's leader (so it includes every acknowledged write)."""
    return await _message(client, stream, {"last_by_subj": subject}, timeout_s)


async def next_on_subject(client: Client, stream: str, subject: str, *, after_seq: int) -> StoredMessage | None:
    """Return the first message on one subject after that sequence, from the stream's leader."""
    which = {"seq": after_seq + 1, "next_by_subj": subject}
    return await _message(client, stream, which, REQUEST_TIMEOUT_S)


async def message_at(
    client: Client, stream: str, seq: int, *, timeout_s: float = REQUEST_TIMEOUT_S
) -> StoredMessage | None:
    """Return the message with that sequence, from the stream's leader; None if it does not exist (any longer)."""
    return await _message(client, stream, {"seq": seq}, timeout_s)


async def _message(client: Client, stream: str, which: Mapping[str, object], timeout_s: float) -> StoredMessage | None:
    try:
        body = await call(client, f"STREAM.MSG.GET.{stream}", which, timeout_s=timeout_s)
    except ApiError as error:
        if error.err_code == NO_MESSAGE:
            return None
        raise
    raw = _RawAnswer.model_validate_json(body).message
    return StoredMessage(
        subject=raw.subject,
        seq=raw.seq,
        headers=header_fields(base64.b64decode(raw.hdrs)),
        body=base64.b64decode(raw.data),
        time=instant_of(raw.time),
    )


def header_fields(block: bytes) -> dict[str, str]:
    """Parse a NATS header block (`NATS/1.0` and `Name: value` lines) into a mapping."""
    lines = block.decode(errors="replace").split("\r\n")[1:]
    pairs = (line.partition(":") for line in lines if line)
    return {name.strip(): value.strip() for name, _, value in pairs}


def instant_of(stamp: str) -> Instant:
    """Parse an RFC 3339 time with up to nine decimals, in UTC, to the nanosecond (datetime supports microseconds)."""
    whole, _, fraction = stamp.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
    return Instant(seconds * NS_PER_S + int(fraction.ljust(9, "0") or "0"))
