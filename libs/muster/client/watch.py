"""Following facts over reconnects: each fact once, none missed while the gateway still has it.

Server-sent events are read as far as Muster sends them (HTML Living Standard, section 9.2: lines end with LF)."""

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
"""A fact of 512 KiB whose every character is escaped, and what stands around it."""

SILENCE_S_MAX = 30.0  # the gateway says something every ten seconds


class TypedFact(FactView):
    """A fact whose `payload` is read on demand: most readers look at the name alone."""

    @cached_property
    def payload(self) -> FactBody | None:
        """The body in its own type; None if this version does not know the fact (a newer Muster wrote it).

        Raises pydantic.ValidationError if the body does not fit its type.
        """
        role = StreamRole.FED if self.stream == FED_STREAM else StreamRole.LOG
        row = fact_type(role, self.writer, self.kind, self.name)
        return None if row is None else row.payload.model_validate_json(self.body)


class EventTooLongError(ValueError):
    """More bytes than any event has came without the empty line that ends one: whoever sends is not Muster."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event. id: cursor after it, "" if it has none. data: its lines, UTF-8."""

    id: str
    name: str
    data: bytes


class EventParser:
    """Makes events of an answer's bytes, however they are cut into pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[Event]:
        """Events that are whole with this piece. Comments and unknown fields are passed by.

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
    """Facts of a stream of events. after: cursor, "" for the stream's own beginning. ends: names of a job's own facts
    that end it.

    Raises RefusedError; UnreachableError after the bounded number of attempts without any progress.
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
    """Events in the lists that they arrive in. Raises RefusedError, UnreachableError, one of BROKEN."""
    query = {**params, "follow": "true", **({"after": cursor} if cursor else {})}
    parser = EventParser()
    async with transport.listen(path, params=query, silence_s=SILENCE_S_MAX) as pieces:
        async for piece in pieces:
            try:
                events = parser.feed(piece)
            except EventTooLongError as error:
                raise UnreachableError(f"{transport.url}{path}: {error}") from error
            yield events
