"""A load generator that submits jobs over HTTP, at full speed or at a given rate, over keep-alive connections."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass

import aiohttp

from muster.bus.clock import SystemTime

ACCEPTED = (200, 201, 202)
REQUEST_S_MAX = 60.0
REFUSALS_TOLD_MAX = 3

Request = tuple[str, bytes]
"""Idempotency key and body."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """Outcome of a submission."""

    accepted: int
    refused: int
    first_ns: int
    """Wall clock just before the first request, in nanoseconds since the Unix epoch."""
    took_s: float
    """Duration of all requests."""
    refusals: tuple[str, ...]
    """The first few responses with a status other than ACCEPTED."""
    late_s_max: float = 0.0
    """Maximum delay of a request, because all connections or the machine were busy."""


async def submit(
    requests: Iterable[Request], *, url: str, token: str, connections: int, progress: Callable[[int], None],
    pace_s: Iterable[float] | None = None,
) -> Submitted:  # fmt: skip
    """Send every request once. pace_s: when each is due, seconds after the first, ascending; None: as fast as
    `connections` requests under way allow.

    Raises aiohttp.ClientError if the gateway cannot be reached.
    """
    accepted = refused = 0
    refusals: list[str] = []
    due = _Due(requests, pace_s)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(limit=connections)
    timeout = aiohttp.ClientTimeout(total=REQUEST_S_MAX)

    async def work(session: aiohttp.ClientSession) -> None:
        nonlocal accepted, refused
        async for key, body in due:
            async with session.post(f"{url}/v1/jobs", data=body, headers={"Idempotency-Key": key}) as answer:
                text = await answer.read()
            if answer.status in ACCEPTED:
                accepted += 1
                progress(accepted)
            else:
                refused += 1
                if len(refusals) < REFUSALS_TOLD_MAX:
                    refusals.append(f"{answer.status}: {text[:300].decode(errors='replace')}")

    async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=headers) as session:
        first_ns, began_s = SystemTime().wall(), time.monotonic()
        async with asyncio.TaskGroup() as group:
            for _ in range(connections):
                group.create_task(work(session))
    return Submitted(accepted, refused, first_ns, time.monotonic() - began_s, tuple(refusals), due.late_s_max)


def steady(per_s: float) -> Iterator[float] | None:
    """Return the schedule of this many requests per second; None for 0: as fast as possible."""
    return (number / per_s for number in itertools.count()) if per_s else None


class _Due:
    """Distributes the requests to workers, none before its due time."""

    def __init__(self, requests: Iterable[Request], pace_s: Iterable[float] | None) -> None:
        self._requests: Iterator[Request] = iter(requests)
        self._pace_s = None if pace_s is None else iter(pace_s)
        self._began_s: float | None = None
        self.late_s_max = 0.0

    def __aiter__(self) -> "_Due":
        return self

    async def __anext__(self) -> Request:
        request = next(self._requests, None)
        if request is None:
            raise StopAsyncIteration
        if self._pace_s is not None:
            await self._wait(next(self._pace_s))
        return request

    async def _wait(self, due_s: float) -> None:
        now_s = time.monotonic()
        if self._began_s is None:
            self._began_s = now_s - due_s
        wait_s = self._began_s + due_s - now_s
        self.late_s_max = max(self.late_s_max, -wait_s)
        await asyncio.sleep(max(0.0, wait_s))


async def in_parallel(works: Iterable[Awaitable[None]], *, at_once: int) -> None:
    """Await all, with at most `at_once` running."""
    gate = asyncio.Semaphore(at_once)

    async def one(work: Awaitable[None]) -> None:
        async with gate:
            await work

    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(one(work))
