"""Facts as a list, and as server-sent events.

The id of an event is the listener's position after it, so a client that reconnects misses nothing.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace

from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse

from muster.bus.clock import TimeSource
from muster.gateway import answers
from muster.gateway.api.dependencies import Route, context_of
from muster.gateway.api.openapi import Responses, listing, parameter, read_by_handler, refusals
from muster.gateway.api.parameters import Count, read_flag, read_here
from muster.gateway.context import AppContext
from muster.gateway.feed import FedFact, Position, cursor, parse_cursor
from muster.gateway.ports import ReadView, UnreachableError
from muster.gateway.visibility import Facts
from muster.schemas.job import TERMINAL_PHASES
from muster.schemas.views import FactView

LOOK_EVERY_S = 10.0
"""Interval between look-ups of the streams that hold the job's facts while no fact arrives, in seconds."""
DOUBT_EVERY_S = 0.5
"""The same interval after a fact from another stream: the federation's row may be behind that stream."""
DOUBT_S_MAX = 30.0
"""How long the shorter interval applies after such a fact, in seconds."""

MEDIA_TYPE = "text/event-stream"
STREAM: Responses = {200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}}
"""Responses of routes that also answer as a stream, for the OpenAPI document."""

HEARTBEAT_S = 10.0
LOST_S_MAX = 30.0  # outage of the read model after which a stream is closed, so that the client reconnects
RETRY_MS = 1_000
_TERMINAL_NAMES = frozenset(phase.value for phase in TERMINAL_PHASES)
FACTS_LOOKED_AT = 2_000  # newest facts that are searched for wanted facts
_END = b"event: end\ndata: the job has ended\n\n"
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

Wanted = Callable[[FedFact], bool]

PAGE_MAX = 2_000
PAGE_DEFAULT = 100

router = APIRouter(route_class=Route, tags=["events"])


class JobFacts:
    """Implements `Facts` for one job; facts from streams that are not the job's are left out. Any cluster can write
    facts about any job. When the federation names another cluster, all kept facts of that cluster about the job are
    returned."""

    def __init__(self, whole: Facts, view: ReadView, job_id: str, *, time: TimeSource, told: Position) -> None:
        """Follow `whole`. told: by stream, the sequence up to which the listener has the job's facts."""
        self._whole = whole
        self._view = view
        self._job_id = job_id
        self._time = time
        self._told = dict(told)
        self._logs: frozenset[str] = frozenset()
        self._found: list[FedFact] = []
        self._look_at_s = self._doubt_until_s = float("-inf")

    @property
    def version(self) -> int:
        """Return a number that grows whenever there may be new facts."""
        return self._whole.version

    def position(self) -> Position:
        """Return the position after all facts so far."""
        return self._whole.position()

    async def after(self, position: Position) -> list[FedFact]:
        """Return the job's facts after `position`. Facts found before a failure of the read model are returned
        later."""
        self._found += [fact for fact in await self._whole.after(position) if self._is_about_it(fact)]
        now_s = self._time.monotonic_s()
        if not self._found and now_s < self._look_at_s:
            return []
        self._look_at_s = now_s + DOUBT_EVERY_S  # applies if the read model does not answer
        logs = await self._view.logs_of(self._job_id)
        if logs is None:
            self._look_at_s = float("inf")
            taken, self._found = self._found, []
            return taken
        kept = await self._kept() if logs - self._logs else []
        found, self._found, self._logs = self._found, [], logs
        if any(fact.stream not in logs for fact in found):
            self._doubt_until_s = now_s + DOUBT_S_MAX
        self._look_at_s = now_s + (DOUBT_EVERY_S if now_s < self._doubt_until_s else LOOK_EVERY_S)
        return self._new(fact for fact in (*kept, *found) if fact.stream in logs)

    async def changed(self, *, since: int, timeout_s: float) -> bool:
        """Wait until there may be new facts, or the next look-up is due."""
        due_s = max(0.0, self._look_at_s - self._time.monotonic_s())
        return await self._whole.changed(since=since, timeout_s=min(timeout_s, due_s))

    async def newest(self, count: int) -> list[FedFact]:
        """Return the newest facts about the job."""
        return [fact for fact in await self._whole.newest(count) if self._is_about_it(fact)]

    async def _kept(self) -> list[FedFact]:
        bodies = await self._view.trail(self._job_id)
        views = ((FactView.model_validate_json(body), body) for body in bodies)
        return [FedFact(view.stream, view.seq, "", body, self._job_id) for view, body in views]

    def _new(self, facts: Iterable[FedFact]) -> list[FedFact]:
        """Return each fact once: a kept fact may also arrive in the feed."""
        new: list[FedFact] = []
        for fact in facts:
            if fact.seq > self._told.get(fact.stream, 0):
                self._told[fact.stream] = fact.seq
                new.append(fact)
        return new

    def _is_about_it(self, fact: FedFact) -> bool:
        """Return whether it is one of the job's own facts, or a fact of another kind that serves the job."""
        job_id = self._job_id
        return fact.job_id == job_id or (job_id.encode() in fact.body and fact.view.subject_id == job_id)


def after_of(request: Request) -> str | None:
    """Return the cursor of the last event that a client has received; None for a new client."""
    return request.query_params.get("after") or request.headers.get("last-event-id")


async def fact_stream(context: AppContext, wanted: Wanted, *, after: str | None, newest: int = 0) -> StreamingResponse:
    """Stream every wanted fact after the client's cursor, or from now on.

    newest: without a cursor, send this many older facts first. Raises ProblemError (422, 503), UnreachableError.
    """
    now = context.feed.position()  # before the newest facts are read, so that none is missed
    if after is not None:
        position = {**dict.fromkeys(now, 0), **{s: q for s, q in parse_cursor(after).items() if s in now}}
        return _response(_live(context, position, wanted))
    known = [fact for fact in await context.feed.newest(FACTS_LOOKED_AT) if wanted(fact)] if newest else []
    return _response(_from_newest(context, now, known[-newest:], wanted))


def job_stream(context: AppContext, job_id: str, *, after: str | None) -> StreamingResponse:
    """Stream a job's facts until it ends, from the first or after the cursor. Raises ProblemError (422, 503)."""
    position = context.feed.position()  # before the trail is read, so that none is missed
    return _response(_job(context, job_id, position, {} if after is None else parse_cursor(after)))


async def _from_newest(
    context: AppContext, position: Position, known: Sequence[FedFact], wanted: Wanted
) -> AsyncIterator[bytes]:
    """Stream the known facts, then new ones. Only the last known fact carries a cursor: a reconnect before it starts
    again."""
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
    """Stream the wanted facts. told: the position that the client has, if it is beyond `position`."""
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
            yield b"".join(chunk)  # one write for all facts: many facts cost little more than one
        if not facts and not await context.feed.changed(since=version, timeout_s=HEARTBEAT_S):
            yield b": nothing new\n\n"


def _is_end(fact: FactView) -> bool:
    """Return whether the fact ends the job. Facts of other kinds, such as a failed attachment, do not."""
    return fact.kind == "job" and fact.name in _TERMINAL_NAMES


def _event(body: bytes, position: Position | None = None) -> bytes:
    ident = b"" if position is None else b"id: " + cursor(position).encode() + b"\n"
    return ident + b"event: fact\ndata: " + body + b"\n\n"


def _response(chunks: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(chunks, media_type=MEDIA_TYPE, headers=_HEADERS)


@router.get(
    "/v1/events",
    summary="List or stream facts",
    response_model=listing("facts", FactView),
    response_description="The newest facts, oldest first; with `follow`, new facts as they are stored",
    responses=STREAM | refusals(),
    openapi_extra=read_by_handler(
        parameter("follow", "Keep the answer open (SSE)", kind="boolean"),
        parameter("after", "With `follow`: start after this cursor (id of the last event) instead of now"),
        parameter("team", "Only facts about jobs of this team"),
        parameter(
            "limit",
            f"Maximum number of facts, at most {PAGE_MAX}; with `follow`: number of older facts to send first",
            kind="integer",
        ),
        parameter("Last-Event-ID", "The same as `after`, as a browser sends it", place="header"),
    ),
)
async def events(request: Request) -> Response:
    """Return facts; `Accept: text/event-stream` asks to follow, too."""
    context, params = context_of(request), request.query_params
    team = params.get("team", "")

    def wanted(fact: FedFact) -> bool:
        return not team or fact.team == team

    follow = read_here(params.get("follow"), read_flag, field="follow", default=False)
    limit = read_here(params.get("limit"), Count(PAGE_MAX), field="limit", default=0)
    if follow or MEDIA_TYPE in request.headers.get("accept", ""):
        return await fact_stream(context, wanted, after=after_of(request), newest=limit)
    limit = limit or PAGE_DEFAULT
    newest = await context.feed.newest(PAGE_MAX if team else limit)
    return answers.rows("facts", [fact.body for fact in newest if wanted(fact)][-limit:])
