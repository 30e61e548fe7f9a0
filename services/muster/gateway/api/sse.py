"""Facts as server-sent events. An event's id is the listener's position after it, so a reconnect misses nothing."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import StreamingResponse

from muster.gateway.api.openapi import Responses
from muster.gateway.context import AppContext
from muster.gateway.feed import FedFact, Position, cursor, parse_cursor
from muster.gateway.job_facts import JobFacts
from muster.gateway.ports import UnreachableError
from muster.schemas.job import TERMINAL_PHASES
from muster.schemas.views import FactView

MEDIA_TYPE = "text/event-stream"
STREAM: Responses = {200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}}
"""Of routes that also answer as a stream, for the OpenAPI document."""

HEARTBEAT_S = 10.0
LOST_S_MAX = 30.0  # the read model may be away so long before a listener is told to come back
RETRY_MS = 1_000
_TERMINAL_NAMES = frozenset(phase.value for phase in TERMINAL_PHASES)
FACTS_LOOKED_AT = 2_000  # newest facts among which those that are wanted are looked for
_END = b"event: end\ndata: the job has ended\n\n"
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

Wanted = Callable[[FedFact], bool]


def after_of(request: Request) -> str | None:
    """Return the cursor of the last event that a listener has seen; None if it begins."""
    return request.query_params.get("after") or request.headers.get("last-event-id")


async def fact_stream(context: AppContext, wanted: Wanted, *, after: str | None, newest: int = 0) -> StreamingResponse:
    """Every fact that is wanted, after the client's cursor, or from now on.

    newest: without a cursor, begin with so many of those that were. Raises ProblemError (422, 503), UnreachableError.
    """
    now = context.feed.position()  # before the newest are read: what comes between is among them, or comes after
    if after is not None:
        position = {**dict.fromkeys(now, 0), **{s: q for s, q in parse_cursor(after).items() if s in now}}
        return _response(_live(context, position, wanted))
    known = [fact for fact in await context.feed.newest(FACTS_LOOKED_AT) if wanted(fact)] if newest else []
    return _response(_from_newest(context, now, known[-newest:], wanted))


def job_stream(context: AppContext, job_id: str, *, after: str | None) -> StreamingResponse:
    """A job's facts from its first, or after the client's cursor, until it ends. Raises ProblemError (422, 503)."""
    position = context.feed.position()  # before the trail is read: what comes between is in both, and told once
    return _response(_job(context, job_id, position, {} if after is None else parse_cursor(after)))


async def _from_newest(
    context: AppContext, position: Position, known: Sequence[FedFact], wanted: Wanted
) -> AsyncIterator[bytes]:
    """Only the last of what is known carries a cursor: a client that broke off before begins anew."""
    for fact in known:
        position[fact.stream] = max(fact.seq, position.get(fact.stream, 0))
    if known:
        yield b"".join([*(_event(fact.body) for fact in known[:-1]), _event(known[-1].body, position)])
    async for chunk in _live(context, position, wanted):
        yield chunk


async def _job(context: AppContext, job_id: str, position: Position, after: Position) -> AsyncIterator[bytes]:
    told = dict(after)
    for body in await context.view.trail(job_id):
        fact = FactView.model_validate_json(body)
        if fact.seq > told.get(fact.stream, 0):
            told[fact.stream] = fact.seq
            yield _event(body, told)
        if _is_end(fact):
            yield _END
            return

    def is_new(fact: FedFact) -> bool:
        return fact.seq > told.get(fact.stream, 0)

    covered = {stream: max(seq, told.get(stream, 0)) for stream, seq in position.items()}
    following = replace(context, feed=JobFacts(context.feed, context.view, job_id, time=context.time, told=told))
    async for chunk in _live(following, position, is_new, told=covered, until_end=True):
        yield chunk


async def _live(
    context: AppContext, position: Position, wanted: Wanted, *, told: Position | None = None, until_end: bool = False
) -> AsyncIterator[bytes]:
    """told: what the client has, if that is more than `position`."""
    yield f"retry: {RETRY_MS}\n\n".encode()
    told = dict(told or position)
    lost_since_s: float | None = None
    while True:
        version = context.feed.version
        try:
            facts = await context.feed.after(position)
            lost_since_s = None
        except UnreachableError:
            facts = []
            lost_since_s = lost_since_s or context.time.monotonic_s()
            if context.time.monotonic_s() - lost_since_s > LOST_S_MAX:
                return
        chunk: list[bytes] = []
        for fact in facts:
            is_wanted = wanted(fact)
            told[fact.stream] = max(fact.seq, told.get(fact.stream, 0))
            if is_wanted:
                chunk.append(_event(fact.body, told))
                if until_end and _is_end(fact.view):
                    yield b"".join([*chunk, _END])
                    return
        if chunk:
            yield b"".join(chunk)  # one write for all: a listener costs little more for many facts than for one
        if not facts and not await context.feed.changed(since=version, timeout_s=HEARTBEAT_S):
            yield b": nothing new\n\n"


def _is_end(fact: FactView) -> bool:
    """A device's attachment may fail, too: only the job's own word ends it."""
    return fact.kind == "job" and fact.name in _TERMINAL_NAMES


def _event(body: bytes, position: Position | None = None) -> bytes:
    ident = b"" if position is None else b"id: " + cursor(position).encode() + b"\n"
    return ident + b"event: fact\ndata: " + body + b"\n\n"


def _response(chunks: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(chunks, media_type=MEDIA_TYPE, headers=_HEADERS)
