"""Dead letters: one entry in stream DEAD for every message that claims to be a known fact and is not one.

Each entry has a subject of its own that expects to be empty, so that any number of readers, restarts and replays
leave one entry per message.
"""

import json
import logging
from collections.abc import Mapping
from typing import Protocol

from nats.aio.client import Client

from muster.bus.batches import Outgoing, Writer
from muster.bus.decode import Dead
from muster.bus.ports import LogCounters, LogUnavailableError
from muster.bus.requests import Outcome, publish
from muster.bus.tracing import about
from muster.core.fact import Draft
from muster.schemas.envelope import HEADER_MSG_ID, HEADER_TRACE
from muster.schemas.ids import request_fact_id
from muster.schemas.subjects import dead_draft_subject, dead_subject

BODY_BYTES_MAX = 64 * 1024
HEADERS_CHARACTERS_MAX = 4096
HEADER_SUBJECT = "muster-dead-subject"
HEADER_ERROR = "muster-dead-error"
HEADER_STREAM = "muster-dead-stream"
HEADER_SEQ = "muster-dead-seq"
HEADER_HEADERS = "muster-dead-headers"

_logger = logging.getLogger(__name__)


class DeadLetters(Protocol):
    """Destination of messages that readers cannot decode."""

    async def bury(self, stream: str, dead: Dead, fields: Mapping[str, str] | None, body: bytes) -> None:
        """Store the entry unless it exists. Raises LogUnavailableError."""
        ...


def letter(stream: str, dead: Dead, fields: Mapping[str, str] | None, body: bytes) -> Outgoing:
    """Return the entry: the problem and the position as headers, and the original body, cut to BODY_BYTES_MAX."""
    original = json.dumps({str(name): value for name, value in (fields or {}).items()})
    headers = {
        HEADER_MSG_ID: f"{stream}-{dead.seq}",
        HEADER_STREAM: stream,
        HEADER_SEQ: str(dead.seq),
        HEADER_SUBJECT: dead.subject,
        HEADER_ERROR: " ".join(dead.error.split()),
        HEADER_HEADERS: original[:HEADERS_CHARACTERS_MAX],
    }
    return Outgoing(dead_subject(stream, dead.seq), headers, body[:BODY_BYTES_MAX])


def refused_letter(writer: Writer, draft: Draft, detail: str) -> Outgoing:
    """Return the entry of a draft that the log refuses; one for each subject, independent of the body."""
    subject, stream = writer.subject(draft), writer.log.stream
    key = request_fact_id("refused", stream, subject)
    headers = {
        HEADER_MSG_ID: f"{stream}-{key}",
        HEADER_STREAM: stream,
        HEADER_SUBJECT: _one_line(subject),
        HEADER_ERROR: _one_line(detail),
    }
    body = draft.payload.model_dump_json().encode()
    return Outgoing(dead_draft_subject(stream, key), headers, body[:BODY_BYTES_MAX])


def _one_line(text: str) -> str:
    return " ".join(text.split())[:HEADERS_CHARACTERS_MAX]


async def bury_refused(client: Client, counters: LogCounters, writer: Writer, draft: Draft, detail: str) -> None:
    """Store the entry of a refused draft unless it exists. Raises LogUnavailableError."""
    stored = await publish(client, refused_letter(writer, draft, detail), expect_new=True)
    if stored.outcome is Outcome.UNAVAILABLE:
        raise LogUnavailableError(stored.detail)
    if stored.outcome is Outcome.FULL:
        counters.dead_unwritten += 1
        _logger.error("stream DEAD is full (%s): no entry for %s", stored.detail, writer.subject(draft))


class NatsDeadLetters:
    """Buries in the stream DEAD. The connection's user may publish `dead.<stream>.*`."""

    def __init__(self, client: Client, counters: LogCounters) -> None:
        self._client = client
        self._counters = counters

    async def bury(self, stream: str, dead: Dead, fields: Mapping[str, str] | None, body: bytes) -> None:
        """Store the entry unless it exists. A full DEAD stream is counted and logged; reading continues."""
        stored = await publish(self._client, letter(stream, dead, fields, body), expect_new=True)
        match stored.outcome:
            case Outcome.UNAVAILABLE:
                raise LogUnavailableError(stored.detail)
            case Outcome.FULL:
                self._counters.dead_unwritten += 1
                _logger.error("stream DEAD is full (%s): no entry for %s %d", stored.detail, stream, dead.seq)
            case Outcome.STORED:
                trace = about((fields or {}).get(HEADER_TRACE, ""))
                _logger.warning("dead letter: %s %d %s: %s", stream, dead.seq, dead.subject, dead.error, extra=trace)
            case Outcome.EXISTS:
                pass
