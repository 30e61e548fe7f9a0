"""Following facts over reconnects: each fact once, none missed while the gateway still has it."""

import asyncio
from collections.abc import AsyncIterator, Mapping

from muster.client.errors import UnreachableError
from muster.client.events import Event, EventParser, EventTooLongError
from muster.client.facts import TypedFact
from muster.client.http import BROKEN, Door

SILENCE_S_MAX = 30.0  # the gateway says something every ten seconds


async def follow(
    door: Door, path: str, *, params: Mapping[str, str | int], after: str, ends: frozenset[str]
) -> AsyncIterator[TypedFact]:
    """Facts of a stream of events. after: cursor, "" for the stream's own beginning. ends: names of a job's own facts
    that end it.

    Raises RefusedError; UnreachableError after the bounded number of attempts without any progress.
    """
    cursor, seen = after, dict[str, int]()
    failures = 0
    while True:
        try:
            async for events in _once(door, path, params, cursor):
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
        if failures >= door.retry.attempts:
            raise UnreachableError(problem)
        await asyncio.sleep(door.retry.wait_s(failures))


async def _once(door: Door, path: str, params: Mapping[str, str | int], cursor: str) -> AsyncIterator[list[Event]]:
    """Events in the lists that they arrive in. Raises RefusedError, UnreachableError, one of BROKEN."""
    query = {**params, "follow": "true", **({"after": cursor} if cursor else {})}
    parser = EventParser()
    async with door.listen(path, params=query, silence_s=SILENCE_S_MAX) as pieces:
        async for piece in pieces:
            try:
                events = parser.feed(piece)
            except EventTooLongError as error:
                raise UnreachableError(f"{door.url}{path}: {error}") from error
            yield events
