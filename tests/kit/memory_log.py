"""A log in memory with the semantics of the real one: for simulation and for fast tests.

It stores facts as they are (drafts are typed already), so nothing is encoded on the way; foreign messages (`put`) are
kept as bytes and decoded by whoever reads them, as on the bus. It never waits unless a reader asks for what is not
there yet.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from muster.bus.batches import Writer, own_span, split, write_each
from muster.bus.decode import Dead, Decoder, Skipped, StoredMessage
from muster.bus.ports import (
    Appended,
    Batch,
    DraftsRefusedError,
    FactsMissingError,
    LogCounters,
    LogFullError,
    LogUnavailableError,
    Refusal,
    Refused,
    StaleFenceError,
)
from muster.core.fact import Draft, Fact
from muster.core.instant import Instant
from muster.schemas import ids
from muster.schemas.base import CAUSES_MAX
from muster.schemas.facts.control import Fence, TermStarted
from muster.schemas.registry import TABLE, StreamRole
from muster.schemas.subjects import FENCE, LogName

Stored = Fact | StoredMessage
"""A fact of an appender, or a message that no appender of this log wrote."""


class MemoryLog:
    """One log (`ports.Log`). clock: the broker's. messages_max: refuses appends beyond, None if endless.

    dead: dead letters by sequence, one per message whoever reads it. followers: called with the facts just stored.
    forbidden: subjects that nobody may publish to; broken: subjects that the broker refuses without a word why.
    refused: dead letters of drafts, by subject.
    """

    def __init__(self, name: LogName, *, clock: Callable[[], Instant], messages_max: int | None = None) -> None:
        self.name = name
        self.counters = LogCounters()
        self.dead: dict[int, Dead] = {}
        self.forbidden: set[str] = set()
        self.broken: set[str] = set()
        self.refused: dict[str, str] = {}
        self.followers: list[Callable[[Sequence[Fact]], None]] = []
        self.messages_max = messages_max
        self._clock = clock
        self._messages: list[Stored] = []
        self._first_seq = 1
        self._newest_fences: dict[str, tuple[int, Fence]] = {}
        self._grown = asyncio.Event()

    async def reader(self, *, after_seq: int) -> "MemoryReader":
        """See `ports.Log.reader`. Raises FactsMissingError."""
        self.messages_after(after_seq, 0)
        return MemoryReader(self, after_seq)

    def appender(self, service: str) -> "MemoryAppender":
        """See `ports.Log.appender`."""
        return MemoryAppender(self, service)

    @property
    def head_seq(self) -> int:
        """Sequence of the newest message, 0 if there never was one."""
        return self._first_seq + len(self._messages) - 1

    @property
    def full(self) -> bool:
        """True if not even one more message has room."""
        return self.messages_max is not None and len(self._messages) >= self.messages_max

    def now(self) -> Instant:
        """The broker's time for a message stored now: the clock's, never before the newest message's."""
        return max(self._clock(), self._messages[-1].time) if self._messages else self._clock()

    def store(self, facts: Sequence[Fact]) -> Appended:
        """All or nothing; the facts get their sequences and the time. Raises LogFullError."""
        if self.messages_max is not None and len(self._messages) + len(facts) > self.messages_max:
            self.counters.full += 1
            raise LogFullError(f"{self.name.stream}: {self.messages_max} messages are stored")
        first, time = self.head_seq + 1, self.now()
        stored = [replace(fact, seq=first + offset, time=time) for offset, fact in enumerate(facts)]
        self._messages.extend(stored)
        self._wake()
        for follower in self.followers:
            follower(stored)
        return Appended(first, first + len(facts) - 1)

    def put(self, subject: str, headers: Mapping[str, str] | None, body: bytes) -> int:
        """Store a message as a stranger would; returns its sequence."""
        message = StoredMessage(subject, self.head_seq + 1, headers or {}, body, self.now())
        self._messages.append(message)
        self._wake()
        return message.seq

    def purge(self, up_to_seq: int) -> None:
        """Forget everything up to a sequence."""
        gone = min(max(up_to_seq - self._first_seq + 1, 0), len(self._messages))
        del self._messages[:gone]
        self._first_seq += gone

    def newest_fence(self, service: str) -> tuple[int, Fence | None]:
        """Sequence and content of a service's newest fence record; (0, None) if it is not (or no longer) there."""
        seq, fence = self._newest_fences.get(service, (0, None))
        return (seq, fence) if seq >= self._first_seq else (0, None)

    def fenced(self, service: str, fence: Fence, facts: Sequence[Fact], *, expected_seq: int) -> Appended:
        """A batch guarded by the service's newest fence. Raises StaleFenceError, LogFullError."""
        newest, _ = self.newest_fence(service)
        if newest != expected_seq:
            self.counters.stale += 1
            raise StaleFenceError(f"{self.name.stream}: fence of {service} is at {newest}, expected {expected_seq}")
        appended = self.store(facts)
        self._newest_fences[service] = (appended.first_seq, fence)
        self.counters.appended += len(facts)
        self.counters.batches += 1
        return appended

    def messages_after(self, seq: int, limit: int) -> list[Stored]:
        """Up to `limit` messages after `seq`. Raises FactsMissingError if some of them are gone."""
        if seq and seq + 1 < self._first_seq:
            raise FactsMissingError(f"{self.name.stream} begins at {self._first_seq}, next to read is {seq + 1}")
        if seq > self.head_seq:
            raise FactsMissingError(f"{self.name.stream} ends at {self.head_seq}, {seq} was already read")
        start = max(seq + 1 - self._first_seq, 0)
        return self._messages[start : start + limit]

    async def grown(self, timeout_s: float) -> None:
        """Until a message is stored, or the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._grown.wait()
        except TimeoutError:
            return

    def _wake(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()


class MemoryReader:
    """Facts of a log in memory (`ports.LogReader`)."""

    def __init__(self, log: MemoryLog, after_seq: int) -> None:
        self._log = log
        self._decoder = Decoder(log.name)
        self._last_seq = after_seq

    async def read(self, *, limit: int, timeout_s: float) -> Batch:
        """See `ports.LogReader.read`; does not suspend if something is there or the time-out is 0."""
        messages = self._log.messages_after(self._last_seq, limit)
        if not messages and timeout_s > 0:
            await self._log.grown(timeout_s)
            messages = self._log.messages_after(self._last_seq, limit)
        if not messages:
            return Batch((), self._last_seq, None, 0)
        facts = tuple(fact for message in messages if (fact := self._fact(message)) is not None)
        last = messages[-1]
        self._last_seq = last.seq
        self._log.counters.decoded += len(facts)
        return Batch(facts, last.seq, last.time, self._log.head_seq - last.seq)

    def _fact(self, message: Stored) -> Fact | None:
        if isinstance(message, Fact):
            return message
        found = self._decoder.decode(message.subject, message.headers, message.body, seq=message.seq, time=message.time)
        if isinstance(found, Dead):
            self._log.counters.dead += 1
            self._log.dead.setdefault(message.seq, found)
        elif isinstance(found, Skipped):
            self._log.counters.skipped += 1
        else:
            return found
        return None

    async def head(self) -> int:
        """See `ports.LogReader.head`."""
        return self._log.head_seq

    async def close(self) -> None:
        """Nothing is kept for a reader."""


class MemoryAppender:
    """Appends for one service to a log in memory (`ports.LogAppender`)."""

    def __init__(self, log: MemoryLog, service: str) -> None:
        self._log = log
        self._writer = Writer(log.name, service)
        self._term = 0
        self._fence_seq: int | None = None  # None after a refusal, as on the bus: look before writing again
        self._committed_seq = 0

    async def start_term(self, *, term: int, holder: str) -> Appended:
        """See `ports.LogAppender.start_term`."""
        fence_seq, fence = self._log.newest_fence(self._writer.service)
        if fence is not None and fence.term > term:
            self._log.counters.stale += 1
            raise StaleFenceError(f"term {term}: term {fence.term} has begun at {fence_seq}")
        self._term, self._fence_seq = term, fence_seq
        draft = Draft("log", self._writer.service, "term-started", TermStarted(term=term, holder=holder))
        return self._append_batch([self._fact(draft, fence_seq, 0)], fence_seq, ordinal=0)

    async def append(self, drafts: Sequence[Draft], *, folded_seq: int) -> Appended:
        """See `ports.LogAppender.append`."""
        if folded_seq < self._committed_seq:
            raise StaleFenceError(f"own facts up to {self._committed_seq} are not folded yet, only up to {folded_seq}")
        self._expect_own_fence(folded_seq)
        facts = write_each(drafts, lambda index, draft: self._fact(draft, folded_seq, index))
        appended = Appended(0, 0)
        for ordinal, batch in enumerate(split(drafts)):
            self._check_taken(drafts, batch)
            appended = self._append_batch(facts[batch.start : batch.stop], folded_seq, ordinal=ordinal)
        return appended

    async def report_refused(self, draft: Draft, detail: str) -> None:
        """See `ports.LogAppender.report_refused`."""
        self._log.refused.setdefault(self._writer.subject(draft), detail)

    def _check_taken(self, drafts: Sequence[Draft], batch: range) -> None:
        if not (self._log.forbidden or self._log.broken):
            return
        subjects = {index: self._writer.subject(drafts[index]) for index in batch}
        if refused := [
            Refused(index, Refusal.PERMISSION, f"{subject}: nobody may publish there")
            for index, subject in subjects.items()
            if subject in self._log.forbidden
        ]:
            raise DraftsRefusedError(refused)
        if any(subject in self._log.broken for subject in subjects.values()):
            raise LogUnavailableError(f"{self._log.name.stream}: no answer")

    def _expect_own_fence(self, folded_seq: int) -> None:
        if self._fence_seq is not None:
            return
        fence_seq, fence = self._log.newest_fence(self._writer.service)
        if fence is None or fence.term != self._term or fence_seq > folded_seq:
            self._log.counters.stale += 1
            raise StaleFenceError(
                f"newest fence is {fence!r} at {fence_seq}; own term {self._term}, {folded_seq} folded"
            )
        self._fence_seq = fence_seq

    def _append_batch(self, facts: Sequence[Fact], folded_seq: int, *, ordinal: int) -> Appended:
        expected_seq, self._fence_seq = self._fence_seq, None
        assert expected_seq is not None
        fence = Fence(term=self._term, folded_seq=folded_seq)
        service = self._writer.service
        draft = Draft("log", service, FENCE, fence)
        record = self._fact(draft, folded_seq, -1 - ordinal)
        appended = self._log.fenced(service, fence, [record, *facts], expected_seq=expected_seq)
        self._fence_seq, self._committed_seq = appended.first_seq, appended.last_seq
        return appended

    def _fact(self, draft: Draft, folded_seq: int, index: int) -> Fact:
        """The fact that the bus would give back; sequence and time come when it is stored."""
        self._writer.row(draft)
        log, service = self._log.name, self._writer.service
        fact_id = ids.fact_id(scope=log.scope, service=service, term=self._term, folded_seq=folded_seq, index=index)
        return Fact(
            fact_id, 0, Instant(0), log.cluster or draft.cluster, service, draft.kind, draft.subject_id, draft.name,
            draft.causes[-CAUSES_MAX:], own_span(draft.trace, fact_id), draft.payload,
        )  # fmt: skip


class MemorySource:
    """Copies facts from one log in memory to another, as a stream with a source does: in order, until it is full.

    It pulls whenever the origin grows; call `pull` after room was made in the target.
    """

    def __init__(self, origin: MemoryLog, target: MemoryLog, wanted: Callable[[Fact], bool]) -> None:
        self._origin = origin
        self._target = target
        self._wanted = wanted
        self._taken_seq = 0
        origin.followers.append(lambda _: self.pull())

    def pull(self) -> None:
        """Take what is new, until the target is full."""
        for message in self._origin.messages_after(self._taken_seq, self._origin.head_seq):
            if isinstance(message, Fact) and self._wanted(message):
                if self._target.full:
                    return
                self._target.store([message])
            self._taken_seq = message.seq


def source_addressed(federation: MemoryLog, cluster: MemoryLog) -> MemorySource:
    """`cluster` takes what federation says to it, as the real stream sources it."""
    name = cluster.name.cluster
    return MemorySource(federation, cluster, lambda fact: fact.writer == "federation" and fact.cluster == name)


def source_reports(cluster: MemoryLog, reports: MemoryLog) -> MemorySource:
    """`reports` (a log named FED_UP) takes the cluster's terminal facts and summaries."""
    known = {(row.writer, row.kind, row.name) for row in TABLE if row.stream is StreamRole.FED_UP}
    return MemorySource(cluster, reports, lambda fact: (fact.writer, fact.kind, fact.name) in known)
