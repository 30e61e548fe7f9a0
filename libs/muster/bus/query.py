"""Questions and answers over `query.<cluster>.<service>.<name>`: never facts, answered by the leader from its state.

A responder answers only reply subjects that clients make (`_INBOX.`) or that an account import makes (`_R_.`): a
request whose reply subject is `muster.atlas.scheduler.job.X.placed` would otherwise be a forged fact (DESIGN section
4). The service's publish permissions say the same; this check also counts the attempt.
An answer that is too large for one message is packed; a fleet's lists then fit, some ten times as long.
"""

import logging
import zlib
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

import nats.errors
from faststream import AckPolicy
from faststream.nats import NatsBroker
from faststream.nats.annotations import NatsMessage
from faststream.nats.security import NatsCredentials
from nats.aio.client import Client
from pydantic import ValidationError

from muster.bus.access import inbox_prefix
from muster.bus.clock import SystemTime, TimeSource
from muster.bus.connection import OnClosed, closer, credentials, teller
from muster.bus.declaration import QueryType
from muster.bus.limits import (
    CONNECT_TIMEOUT_S,
    PENDING_BYTES,
    PING_INTERVAL_S,
    PINGS_OUTSTANDING,
    QUERY_BYTES_MAX,
    QUERY_GRACE_S,
    QUERY_PACKING,
    QUERY_WHOLE_BYTES_MAX,
    RECONNECT_WAIT_S,
)
from muster.bus.metrics import count_query, time_query
from muster.bus.service import QueryHandler
from muster.bus.settings import Settings
from muster.core.fact import Core
from muster.core.instant import Instant
from muster.schemas.base import Wire
from muster.schemas.subjects import query_subject
from muster.schemas.views import Problem

REPLY_PREFIXES = ("_INBOX.", "_R_.")
_PROBLEM = b'{"type":"about:blank"'  # how a problem document begins; no answer has such a field first
_PACKED = b"\x78"  # how a zlib stream begins; JSON does not

_logger = logging.getLogger(__name__)
Answer = TypeVar("Answer", bound=Wire)


class UnansweredError(Exception):
    """No answer came in time, the service has no leader, or the answer cannot be read. Ask again later."""


class PackingError(Exception):
    """An answer that was packed cannot be unpacked."""


class ProblemError(Exception):
    """The service answered with a problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.title}: {problem.detail}")
        self.problem = problem


class Answering(Protocol):
    """The part of a shell that answers queries."""

    @property
    def leading(self) -> bool:
        """Return whether it leads; only a leader answers."""
        ...

    @property
    def core(self) -> Core:
        """Return the core that is queried."""
        ...

    def now(self) -> Instant:
        """Return the time of the answer."""
        ...


async def ask(
    connection: Client, subject: str, request: Wire, answer_type: type[Answer], *, timeout_s: float
) -> Answer:
    """Ask a question (`subjects.query_subject`). Raises UnansweredError, ProblemError."""
    if not connection.is_connected:
        raise UnansweredError(f"{subject}: not connected to the bus")
    try:
        reply = await connection.request(subject, request.model_dump_json().encode(), timeout=timeout_s)
    except (nats.errors.Error, OSError) as error:
        raise UnansweredError(f"{subject}: no answer within {timeout_s:g} s: {type(error).__name__}") from error
    try:
        said = unpacked(reply.data)
        if said.startswith(_PROBLEM):
            raise ProblemError(Problem.model_validate_json(said))
        return answer_type.model_validate_json(said)
    except PackingError as error:
        raise UnansweredError(f"{subject}: {error}") from error
    except ValidationError as error:
        raise UnansweredError(f"{subject}: the answer cannot be read: {error.errors()[0]['msg']}") from error


def unpacked(data: bytes) -> bytes:
    """Return an answer as its responder encoded it. Raises PackingError."""
    if not data.startswith(_PACKED):
        return data
    stream = zlib.decompressobj()
    try:
        whole = stream.decompress(data, QUERY_WHOLE_BYTES_MAX)
    except zlib.error as error:
        raise PackingError(f"the answer cannot be unpacked: {error}") from error
    if not stream.eof:
        raise PackingError(f"the answer breaks off, or is longer than {QUERY_WHOLE_BYTES_MAX} bytes")
    return whole


def _packed(encoded: bytes) -> bytes:
    """Return the answer unchanged if one message holds it, for older readers; else compressed by zlib (RFC 1950)."""
    return encoded if len(encoded) <= QUERY_BYTES_MAX else zlib.compress(encoded, QUERY_PACKING)


class Responder:
    """Answers one query. Without I/O: `answer` returns the message to send, or None for no answer."""

    def __init__(
        self,
        service: str,
        query: QueryType,
        handler: QueryHandler,
        shell: Answering,
        *,
        time: TimeSource | None = None,
    ) -> None:
        self._service = service
        self._query = query
        self._handler = handler
        self._shell = shell
        self._time = time or SystemTime()

    def answer(self, body: bytes, *, reply: str) -> bytes | None:
        """Return the answer or a problem; None if this process does not lead or the reply subject is no client's."""
        if not reply.startswith(REPLY_PREFIXES):
            self._count("forged")
            _logger.error("question %s with reply subject %r is not answered", self._query.name, reply)
            return None
        if not self._shell.leading:
            self._count("silent")
            return None
        started_s = self._time.monotonic_s()
        said = self._said(body)
        self._count("problem" if isinstance(said, Problem) else "answered")
        encoded = said.model_dump_json().encode()
        sent = _packed(encoded)
        time_query(self._service, self._query.name, self._time.monotonic_s() - started_s)
        if len(encoded) > QUERY_WHOLE_BYTES_MAX or len(sent) > QUERY_BYTES_MAX:
            detail = f"{len(encoded)} bytes, {len(sent)} of them packed; one message holds {QUERY_BYTES_MAX}"
            return Problem(title="answer too large", status=500, detail=detail).model_dump_json().encode()
        return sent

    def _said(self, body: bytes) -> Wire:
        try:
            request = self._query.request.model_validate_json(body)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"]))
            return Problem(title="question not understood", status=422, detail=first["msg"], field=field)
        try:
            return self._handler(self._shell.core, request, self._shell.now())
        except Exception as error:
            _logger.exception("question %s of %s", self._query.name, self._service)
            return Problem(title="question failed", status=500, detail=type(error).__name__)

    def _count(self, outcome: str) -> None:
        count_query(self._service, self._query.name, outcome)


def responders(
    service: str, queries: Sequence[QueryType], handlers: Mapping[str, tuple[QueryHandler, Answering]]
) -> dict[str, Responder]:
    """Return one responder per declared query. Raises KeyError if one has no handler."""
    return {query.name: Responder(service, query, *handlers[query.name]) for query in queries}


def query_broker(
    settings: Settings, service: str, answering: Mapping[str, Responder], *, on_closed: OnClosed
) -> NatsBroker:
    """Return a broker, not started, that answers a service's queries with the service's own rights."""
    broker = NatsBroker(
        settings.nats_url,
        name=f"muster {service} queries",
        security=NatsCredentials(str(credentials(settings, service))),
        inbox_prefix=inbox_prefix(service),
        connect_timeout=CONNECT_TIMEOUT_S,
        max_reconnect_attempts=-1,
        reconnect_time_wait=RECONNECT_WAIT_S,  # type: ignore[arg-type]  # fractions of a second work
        ping_interval=PING_INTERVAL_S,
        max_outstanding_pings=PINGS_OUTSTANDING,
        pending_size=PENDING_BYTES,
        error_cb=teller(service),
        closed_cb=closer(service, on_closed),
        graceful_timeout=QUERY_GRACE_S,
        ack_policy=AckPolicy.MANUAL,
        logger=None,
    )
    for name, responder in answering.items():
        _subscribe(broker, query_subject(settings.cluster, service, name), responder)
    return broker


def _subscribe(broker: NatsBroker, subject: str, responder: Responder) -> None:
    @broker.subscriber(subject, no_reply=True, decoder=_as_it_is)
    async def respond(message: NatsMessage) -> None:
        raw = message.raw_message
        answer = responder.answer(raw.data, reply=raw.reply)
        if answer is not None:
            await raw.respond(answer)


async def _as_it_is(message: NatsMessage) -> bytes:
    return message.body
