"""Follow facts across reconnects: each fact once, none missed while the gateway still has it. Server-sent events are
parsed as far as Muster uses them (HTML Living Standard, section 9.2: lines end with LF)."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from muster.client.errors import UnreachableError
from muster.client.http import BROKEN, HttpTransport
from muster.schemas.record import FactBody
from muster.schemas.registry import StreamRole, fact_type
from muster.schemas.subjects import FED_STREAM
from muster.schemas.views import FactView

EVENT_BYTES_MAX = 4 * 1024 * 1024
"""A fact of 512 KiB with every character escaped, and its envelope."""

SILENCE_S_MAX = 30.0  # the gateway sends at least a comment every ten seconds


class TypedFact(FactView):
    """A fact whose `payload` is parsed on demand: most readers only need the name."""

    @cached_property
    def payload(self) -> FactBody | None:
        """Return the body in its own type; None for a fact that this version does not know.

        Raises pydantic.ValidationError if the body does not fit its type.
        """
        role = StreamRole.FED if self.stream == FED_STREAM else StreamRole.LOG
        row = fact_type(role, self.writer, self.kind, self.name)
        return None if row is None else row.payload.model_validate_json(self.body)


class EventTooLongError(ValueError):
    """An event exceeds the maximum size: the sender is not Muster."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event. id: the cursor after it, "" if there is none. data: its lines, UTF-8."""

    id: str
    name: str
    data: bytes


class EventParser:
    """Parses the bytes of an answer into events, however the bytes are split."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[Event]:
        """Return the events that this piece completes. Comments and unknown fields are ignored.

        Raises EventTooLongError.
        """
        *whole, self._rest = (self._rest + piece).split(b"\n\n")
        if len(self._rest) > EVENT_BYTES_MAX:
            raise EventTooLongError(f"more than {EVENT_BYTES_MAX} bytes without an end")
        return list(_events(whole))


def _events(blocks: list[bytes]) -> Iterator[Event]:
    for block in blocks:
        ident, name, data = b"", b"message", list[bytes]()
        for line in block.split(b"\n"):
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            match field:
                case b"id":
                    ident = value
                case b"event":
                    name = value
                case b"data":
                    data.append(value)
                case _:
                    continue
        if data:
            yield Event(ident.decode(errors="replace"), name.decode(errors="replace"), b"\n".join(data))


async def follow(
    transport: HttpTransport, path: str, *, params: Mapping[str, str | int], after: str, ends: frozenset[str]
) -> AsyncIterator[TypedFact]:
    """Yield the facts of a stream of events. after: cursor, "" for the start of the stream.

    ends: names of a job's own facts that end it. Raises RefusedError; UnreachableError after the bounded number of
    attempts without any progress.
    """
    cursor, seen = after, dict[str, int]()
    failures = 0
    while True:
        try:
            async for events in _once(transport, path, params, cursor):
                for event in events:
                    if event.name == "end":
                        return
                    if event.name != "fact":
                        continue
                    fact = TypedFact.model_validate_json(event.data)
                    failures = 0
                    cursor = event.id or cursor
                    if fact.seq <= seen.get(fact.stream, 0):
                        continue
                    seen[fact.stream] = fact.seq
                    yield fact
                    if fact.kind == "job" and fact.name in ends:
                        return
            problem = "the stream of facts ended"
        except (*BROKEN, UnreachableError) as error:
            problem = str(error) or type(error).__name__
        failures += 1
        if failures >= transport.retry.attempts:
            raise UnreachableError(problem)
        await asyncio.sleep(transport.retry.wait_s(failures))


async def _once(
    transport: HttpTransport, path: str, params: Mapping[str, str | int], cursor: str
) -> AsyncIterator[list[Event]]:
    """Yield events in lists, as they arrive. Raises RefusedError, UnreachableError, one of BROKEN."""
    query = {**params, "follow": "true", **({"after": cursor} if cursor else {})}
    parser = EventParser()
    async with transport.listen(path, params=query, silence_s=SILENCE_S_MAX) as pieces:
        async for piece in pieces:
            try:
                events = parser.feed(piece)
            except EventTooLongError as error:
                raise UnreachableError(f"{transport.url}{path}: {error}") from error
            yield events
