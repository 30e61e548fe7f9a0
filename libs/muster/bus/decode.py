"""Decoder of stored messages into facts, or the reason why they are dead. Pure, and fast: every service uses it.

An unknown name is skipped (an older reader survives a newer writer). A known name from the wrong writer, without its
envelope, or with a body that does not parse is dead.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from muster.core.fact import Fact
from muster.core.instant import Instant
from muster.schemas import envelope
from muster.schemas.record import FactBody
from muster.schemas.registry import STATE_NAME, StreamRole, fact_type, is_known
from muster.schemas.subjects import LogName, ParsedSubject, parse_subject

ERROR_CHARACTERS_MAX = 2000
_ROUTES_MAX = 10_000  # rows of the table times writers; more can only be an attack on the cache


@dataclass(frozen=True, slots=True)
class Skipped:
    """A message of an unknown name: not an error, only counted."""

    seq: int
    time: Instant
    subject: str


@dataclass(frozen=True, slots=True)
class Dead:
    """A message with the name of a known fact that is invalid. error: the reason."""

    seq: int
    time: Instant
    subject: str
    error: str


@dataclass(frozen=True, slots=True)
class Position:
    """Contents of a delivered message's reply subject. consumer_seq counts deliveries without holes.

    pending: messages in the stream that were not yet delivered.
    """

    seq: int
    consumer_seq: int
    time: Instant
    pending: int


def position(reply: str) -> Position | None:
    """Parse `$JS.ACK.<stream>.<consumer>.<tries>.<seq>.<consumer seq>.<ns>.<pending>` or its form with a domain.

    None if it is not such a subject (then the message is the server's word on a pull request). ADR-15.
    """
    if not reply.startswith("$JS.ACK."):
        return None
    tokens = reply.split(".")
    if len(tokens) >= 11:
        del tokens[2:4]  # domain and account
    if len(tokens) < 9:
        return None
    return Position(int(tokens[5]), int(tokens[6]), Instant(int(tokens[7])), int(tokens[8]))


@dataclass(frozen=True, slots=True)
class _Route:
    """Data shared by all messages of the same cluster, writer, kind and name. parse: None if wrong or unknown."""

    parse: Callable[[bytes], FactBody] | None
    ce_type: str
    sources: tuple[str, ...]
    known: bool


class Decoder:
    """Decodes the messages of one log."""

    def __init__(self, log: LogName) -> None:
        self._log = log
        self._routes: dict[tuple[str, str, str, str], _Route] = {}

    def decode(
        self, subject: str, fields: Mapping[str, str] | None, body: bytes, *, seq: int, time: Instant
    ) -> Fact | Skipped | Dead:
        """Return the fact in a message, or why it is none. fields: its headers. seq, time: the broker's."""
        parsed = parse_subject(self._log, subject)
        if parsed is None:
            return Skipped(seq, time, subject)
        key = (parsed.cluster, parsed.writer, parsed.kind, parsed.name)
        route = self._routes.get(key) or self._route(key, parsed)
        if route.parse is None:
            if not route.known:
                return Skipped(seq, time, subject)
            return Dead(seq, time, subject, f"{parsed.writer} is not the writer of {parsed.kind} {parsed.name}")
        told = envelope.read(fields)
        if told is None:
            return Dead(seq, time, subject, "no CloudEvents envelope (ce-id, ce-type, ce-source)")
        if told.source not in route.sources:
            return Dead(seq, time, subject, f"ce-source {told.source!r} is not {parsed.writer}, whom the subject names")
        if told.ce_type != route.ce_type:
            return Dead(seq, time, subject, f"ce-type {told.ce_type!r}, expected {route.ce_type!r}")
        try:
            payload = route.parse(body)
        except ValidationError as error:
            return Dead(seq, time, subject, f"body: {error}"[:ERROR_CHARACTERS_MAX])
        return Fact(
            told.id, seq, time, parsed.cluster, parsed.writer, parsed.kind, parsed.subject_id, parsed.name,
            told.causes, told.trace, payload,
        )  # fmt: skip

    def _route(self, key: tuple[str, str, str, str], parsed: ParsedSubject) -> _Route:
        role = self._log.role
        row = fact_type(role, parsed.writer, parsed.kind, parsed.name)
        if row is None or parsed.name == STATE_NAME:  # state facts stand in checkpoints, never in a log
            route = _Route(None, "", (), is_known(role, parsed.kind, parsed.name))
        else:
            sources = _sources(self._log, cluster=parsed.cluster, writer=parsed.writer)
            route = _Route(row.payload.model_validate_json, row.ce_type, sources, known=True)
        if len(self._routes) < _ROUTES_MAX:
            self._routes[key] = route
        return route


def _sources(log: LogName, *, cluster: str, writer: str) -> tuple[str, ...]:
    """Return the possible writers; a fact that a stream took from another one keeps its original source."""
    match log.role:
        case StreamRole.FED:
            return (envelope.source("fed", writer),)
        case StreamRole.FED_UP:
            return (envelope.source(cluster, writer),)
        case StreamRole.LOG if writer == "federation":
            return (envelope.source("fed", writer), envelope.source(cluster, writer))
        case StreamRole.LOG:
            return (envelope.source(cluster, writer),)


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as stored in a stream."""

    subject: str
    seq: int
    headers: Mapping[str, str]
    body: bytes
    time: Instant
    """When the broker stored it."""


def read_stored(log: LogName, message: StoredMessage) -> Fact | Skipped | Dead:
    """Return the fact in a stored message of `log`, or why it is none.

    A look-up of one message checks as much as a fold does, since the broker can have stored any answer there.
    """
    decoder = Decoder(log)
    return decoder.decode(message.subject, message.headers, message.body, seq=message.seq, time=message.time)
