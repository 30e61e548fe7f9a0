"""Following facts over reconnects: each fact once, none missed while the gateway still has it."""

import asyncio
from collections.abc import AsyncIterator, Mapping

import httpx

from muster.client.errors import UnreachableError
from muster.client.events import parse_events
from muster.client.facts import TypedFact
from muster.client.http import Door, raise_for

SILENCE_S_MAX = 30.0  # the gateway says something every ten seconds


async def follow(
    door: Door, path: str, *, params: Mapping[str, str], after: str, ends: frozenset[str]
) -> AsyncIterator[TypedFact]:
    """Facts of a stream of events. after: cursor, "" for the stream's own beginning. ends: names that end it.

    Raises RefusedError; UnreachableError after the bounded number of attempts without any progress.
    """
    cursor, seen = after, dict[str, int]()
    failures = 0
    while True:
        try:
            async for ident, fact in _once(door, path, params, cursor):
                failures = 0
                cursor = ident or cursor
                if fact.seq <= seen.get(fact.stream, 0):
                    continue
                seen[fact.stream] = fact.seq
                yield fact
                if fact.name in ends:
                    return
            problem = "the stream of facts ended"
        except (httpx.TransportError, UnreachableError) as error:
            problem = str(error) or type(error).__name__
        failures += 1
        if failures >= door.retry.attempts:
            raise UnreachableError(problem)
        await asyncio.sleep(door.retry.wait_s(failures))


async def _once(door: Door, path: str, params: Mapping[str, str], cursor: str) -> AsyncIterator[tuple[str, TypedFact]]:
    query = {**params, "follow": "true", **({"after": cursor} if cursor else {})}
    timeout = httpx.Timeout(door.client.timeout.connect, read=SILENCE_S_MAX)
    async with door.client.stream("GET", path, params=query, timeout=timeout) as answer:
        if answer.status_code >= 400:
            raise_for(answer.status_code, await answer.aread())
        async for event in parse_events(answer.aiter_lines()):
            if event.name == "fact":
                yield event.id, TypedFact.model_validate_json(event.data)
