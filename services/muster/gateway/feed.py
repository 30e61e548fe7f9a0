"""Facts in the order of their projection, for any number of listeners, each fact once.

One task reads the capped streams of the read model into a bounded memory. A listener holds its own position (a
sequence per log) and takes the facts after it: from memory, or, if it is further behind, from Redis. Nothing is queued
per listener, so a slow one costs nothing and loses nothing that Redis still has.
"""

import asyncio
import logging
import re
from collections import deque
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from muster.gateway.background import end_if_cancelled
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import ProblemError, invalid
from muster.schemas.readmodel import RECENT_FACTS_MAX, ReadModel, parse_recent_field
from muster.schemas.subjects import LogName
from muster.schemas.views import FactView

MEMORY_FACTS = 4_000  # per log
ENTRIES_PER_READ = 200
BLOCK_MS = 1_000
RETRY_S = 0.5

_TIME = re.compile(rb'"time":(\d+)')
"""The first match is the fact's own time: within texts, quotes are escaped."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FedFact:
    """A fact on its way to listeners."""

    stream: str
    seq: int
    team: str
    """Team of the job that the fact is about, else ""."""
    body: bytes
    job_id: str = ""
    """The job that a fact of another kind serves; a job's own facts name their job themselves."""

    @property
    def time(self) -> int:
        """Return when the fact was stored, without decoding the rest: decoding thousands would delay other requests."""
        stamp = _TIME.search(self.body)
        return int(stamp[1]) if stamp else self.view.time

    @property
    def view(self) -> FactView:
        """Return the decoded fact."""
        return FactView.model_validate_json(self.body)


Position = dict[str, int]
"""By stream, the sequence up to which a listener has all facts."""


def parse_cursor(text: str) -> Position:
    """Parse a cursor such as `FED:12,LOG_atlas:345`. Raises ProblemError (422)."""
    position: Position = {}
    for part in filter(None, text.split(",")):
        stream, _, seq = part.partition(":")
        if not seq.isdecimal() or len(seq) > 19:
            raise invalid(f"{part!r} is not `<stream>:<seq>`", field="after", cure="Send the id of the last event.")
        position[stream] = int(seq)
    return position


def cursor(position: Mapping[str, int]) -> str:
    """Encode a position as a cursor, for `parse_cursor`."""
    return ",".join(f"{stream}:{seq}" for stream, seq in sorted(position.items()))


@dataclass(slots=True)
class _Tail:
    """The newest facts of one log in memory."""

    model: ReadModel
    complete_since: int = 0
    """All facts after this sequence are in memory."""
    last_seq: int = 0
    facts: deque[FedFact] = field(default_factory=deque)

    def restart(self, last_seq: int) -> None:
        self.facts.clear()
        self.complete_since = self.last_seq = last_seq

    def push(self, fact: FedFact) -> None:
        self.facts.append(fact)
        if len(self.facts) > MEMORY_FACTS:
            self.complete_since = self.facts.popleft().seq

    def after(self, seq: int) -> list[FedFact]:
        found: list[FedFact] = []
        for fact in reversed(self.facts):
            if fact.seq <= seq:
                break
            found.append(fact)
        found.reverse()
        return found


class Feed:
    """The facts of several logs."""

    def __init__(self, redis: Redis, models: Mapping[LogName, ReadModel]) -> None:
        self._redis = redis
        self._tails = {log.stream: _Tail(model) for log, model in models.items()}
        self._changed = asyncio.Event()
        self._reads = False
        self.version = 0
        """Grows whenever there may be new facts; read it before `after`, so that no fact is missed between the two."""

    async def run(self) -> None:
        """Read the streams until cancelled."""
        while True:
            try:
                await self._start_at_the_end()
                while True:
                    end_if_cancelled()
                    await self._read()
            except (RedisError, UnreachableError, OSError, TimeoutError) as error:
                self._reads = False
                _log.warning("live facts are paused: %s", error)
                await asyncio.sleep(RETRY_S)

    def position(self) -> Position:
        """Return the position after all facts so far. Raises ProblemError (503) while the read model does not
        answer."""
        self._refuse_unless_reading()
        return {stream: tail.last_seq for stream, tail in self._tails.items()}

    async def after(self, position: Position) -> list[FedFact]:
        """Return the facts after `position`, in order per log, and advance `position`. Raises UnreachableError."""
        found: list[FedFact] = []
        for stream, tail in self._tails.items():
            seq = position.setdefault(stream, 0)
            if seq == tail.last_seq or not self._reads:
                continue
            facts = tail.after(seq) if tail.complete_since <= seq <= tail.last_seq else await self._stored(stream, seq)
            if facts:
                position[stream] = facts[-1].seq
                found.extend(facts)
            elif seq > tail.last_seq and (newest := await self._newest_seq(tail)) < seq:
                position[stream] = newest  # a shorter log replaced this one
        return found

    async def changed(self, *, since: int, timeout_s: float) -> bool:
        """Wait until `version` differs from `since`; return False after the timeout."""
        if self.version != since:
            return True
        try:
            await asyncio.wait_for(self._changed.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    async def newest(self, count: int) -> list[FedFact]:
        """Return the newest facts of all logs, oldest first. Raises UnreachableError."""
        found: list[FedFact] = []
        for stream in self._tails:
            found.extend((await self._stored(stream, 0, newest=count))[-count:])
        found.sort(key=lambda fact: fact.time)
        return found[-count:]

    def _refuse_unless_reading(self) -> None:
        if not self._reads:
            raise ProblemError(503, "Unavailable", detail="the read model does not answer", cure="Try again.")

    async def _start_at_the_end(self) -> None:
        for tail in self._tails.values():
            last = await self._newest_seq(tail)
            if last < tail.last_seq or not self._reads:
                tail.restart(last)
        self._reads = True
        self._tell()

    async def _read(self) -> None:
        by_key = {tail.model.key("recent").encode(): (stream, tail) for stream, tail in self._tails.items()}
        after = {tail.model.key("recent"): f"{tail.last_seq}-0" for tail in self._tails.values()}
        answer = await self._redis.execute_command(  # type: ignore[no-untyped-call]
            "XREAD", "COUNT", ENTRIES_PER_READ, "BLOCK", BLOCK_MS, "STREAMS", *after, *after.values()
        )
        if not answer:
            await self._notice_replacement()
            return
        for key, entries in _streams(answer):
            stream, tail = by_key[key]
            for fact in _facts(stream, entries):
                tail.push(fact)
                tail.last_seq = fact.seq
        self._tell()

    async def _notice_replacement(self) -> None:
        """Restart at lower sequences if the read model was rebuilt; waiting at the old position would never end."""
        for tail in self._tails.values():
            last = await self._newest_seq(tail)
            if last < tail.last_seq:
                tail.restart(last)

    async def _newest_seq(self, tail: _Tail) -> int:
        """Return the sequence of the newest fact. Raises UnreachableError."""
        try:
            newest = await _entries(self._redis.xrevrange(tail.model.key("recent"), count=1))
        except (RedisError, OSError, TimeoutError) as error:
            raise UnreachableError(f"the read model does not answer: {error}") from error
        return int(newest[0][0].split(b"-")[0]) if newest else 0

    def _tell(self) -> None:
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def _stored(self, stream: str, seq: int, *, newest: int = 0) -> list[FedFact]:
        key = self._tails[stream].model.key("recent")
        try:
            if newest:
                entries = await _entries(self._redis.xrevrange(key, count=newest))
                entries.reverse()
            else:
                entries = await _entries(self._redis.xrange(key, min=f"({seq}-0", count=ENTRIES_PER_READ))
        except (RedisError, OSError, TimeoutError) as error:
            raise UnreachableError(f"the read model does not answer: {error}") from error
        return [fact for fact in _facts(stream, entries) if fact.seq > seq][:RECENT_FACTS_MAX]


_Entry = tuple[bytes, dict[bytes, bytes]]


async def _entries(reply: object) -> list[_Entry]:
    return list(await cast("Awaitable[Sequence[_Entry]]", reply))


def _streams(answer: object) -> list[tuple[bytes, list[_Entry]]]:
    return list(cast("Sequence[tuple[bytes, list[_Entry]]]", answer))


def _facts(stream: str, entries: Sequence[_Entry]) -> list[FedFact]:
    found: list[FedFact] = []
    for _, fields in entries:
        for name, body in fields.items():
            seq, team, job_id = parse_recent_field(name)
            found.append(FedFact(stream, seq, team, body, job_id))
    return found
