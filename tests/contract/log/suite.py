"""What every log promises, written once; each implementation inherits it."""

from typing import Protocol

import pytest

from muster.bus.batches import BATCH_MESSAGES_MAX
from muster.bus.ports import (
    DraftsRefusedError,
    FactsMissingError,
    Log,
    LogAppender,
    LogCounters,
    LogFullError,
    LogReader,
    Refusal,
    StaleFenceError,
    TogetherTooLargeError,
)
from muster.core.fact import Draft, Fact
from muster.schemas import envelope, ids
from muster.schemas.facts.job import JobQueued, PodsStarted
from muster.schemas.registry import StreamRole, fact_type

CLUSTER = "atlas"
JOB = "A" * 26
TRACE = f"00-{'ab' * 16}-{'cd' * 8}-01"


class LogBench(Protocol):
    """A log under test, and what a test does to it from outside."""

    log: Log

    def other(self) -> Log:
        """The same log, as another process has it."""
        ...

    async def full_after(self, messages: int) -> Log:
        """A log of its own that refuses appends soon after so many messages."""
        ...

    async def put(self, subject: str, headers: dict[str, str] | None, body: bytes) -> int: ...

    async def purge(self, up_to_seq: int) -> None: ...

    async def dead(self) -> list[int]:
        """Sequences that have an entry among the dead letters, one per entry."""
        ...

    @property
    def counters(self) -> LogCounters: ...


def queued(index: int = 0, *, together: str = "") -> Draft:
    """A fact of the scheduler that carries a number."""
    return Draft("job", JOB, "queued", JobQueued(queue="q", attempt=index), together=together, trace=TRACE)


def numbers(facts: list[Fact]) -> list[int]:
    """What `queued` numbered, in the order of the log."""
    return [fact.payload.attempt for fact in facts if isinstance(fact.payload, JobQueued)]


async def read_to(reader: LogReader, seq: int) -> list[Fact]:
    """All facts up to a sequence."""
    facts: list[Fact] = []
    batch = await reader.read(limit=1000, timeout_s=10)
    facts.extend(batch.facts)
    while batch.last_seq < seq:
        assert batch.time is not None, f"nothing came after {batch.last_seq}, {seq} is stored"
        batch = await reader.read(limit=1000, timeout_s=10)
        facts.extend(batch.facts)
    return facts


async def fold(log: Log, *, after_seq: int = 0) -> list[Fact]:
    """All facts of a log as it is now."""
    reader = await log.reader(after_seq=after_seq)
    facts = await read_to(reader, await reader.head()) if await reader.head() > after_seq else []
    await reader.close()
    return facts


async def leader(log: Log, *, term: int = 1, service: str = "scheduler") -> LogAppender:
    """A pen whose term has begun."""
    pen = log.appender(service)
    await pen.start_term(term=term, holder=f"{service}-{term}")
    return pen


def envelope_of(name: str, *, writer: str, kind: str = "job") -> dict[str, str]:
    """Headers as the writer of that fact would set them."""
    row = fact_type(StreamRole.LOG, writer, kind, name)
    assert row is not None
    return envelope.headers(row, id=f"by-hand-{writer}-{name}", scope=CLUSTER, writer=writer, causes=(), trace="")


class LogContract:
    """Every log keeps these promises."""

    async def test_gives_facts_in_order_as_they_were_drafted(self, bench: LogBench) -> None:
        pen = await leader(bench.log)
        started = Draft("job", JOB, "queued", JobQueued(queue="q", attempt=7), causes=("c1", "c2"), trace=TRACE)

        appended = await pen.append([started, queued(8)], folded_seq=2)

        facts = await fold(bench.log)
        assert [(fact.seq, fact.name) for fact in facts] == [
            (1, "fence"), (2, "term-started"), (3, "fence"), (4, "queued"), (5, "queued"),
        ]  # fmt: skip
        assert (appended.first_seq, appended.last_seq) == (3, 5)
        fact = facts[3]
        assert (fact.cluster, fact.writer, fact.kind, fact.subject_id) == (CLUSTER, "scheduler", "job", JOB)
        assert fact.payload == started.payload
        assert fact.causes == ("c1", "c2")
        assert fact.id == ids.fact_id(scope=CLUSTER, service="scheduler", term=1, folded_seq=2, index=0)
        assert fact.trace == ids.traceparent("ab" * 16, ids.span_id(fact.id))
        assert facts[0].time <= facts[-1].time

    async def test_reads_from_the_middle(self, bench: LogBench) -> None:
        pen = await leader(bench.log)
        await pen.append([queued(n) for n in range(10)], folded_seq=2)

        assert numbers(await fold(bench.log, after_seq=8)) == [5, 6, 7, 8, 9]

    async def test_reads_no_more_than_asked_and_says_what_is_left(self, bench: LogBench) -> None:
        pen = await leader(bench.log)
        await pen.append([queued(n) for n in range(10)], folded_seq=2)
        reader = await bench.log.reader(after_seq=3)

        batch = await reader.read(limit=4, timeout_s=5)

        assert numbers(list(batch.facts)) == [0, 1, 2, 3]
        assert (batch.last_seq, batch.pending, batch.time) == (7, 6, batch.facts[-1].time)
        await reader.close()

    async def test_an_empty_read_moves_nothing(self, bench: LogBench) -> None:
        reader = await bench.log.reader(after_seq=0)

        batch = await reader.read(limit=10, timeout_s=0.01)

        assert (batch.facts, batch.last_seq, batch.time, await reader.head()) == ((), 0, None, 0)
        await reader.close()

    async def test_a_waiting_reader_gets_what_is_appended(self, bench: LogBench) -> None:
        reader = await bench.log.reader(after_seq=0)
        await leader(bench.other())

        assert [fact.name for fact in await read_to(reader, 2)] == ["fence", "term-started"]
        await reader.close()

    async def test_a_deposed_leader_is_refused_whole(self, bench: LogBench) -> None:
        old = await leader(bench.log, term=1)
        await leader(bench.other(), term=2)

        with pytest.raises(StaleFenceError):
            await old.append([queued(1), queued(2)], folded_seq=2)

        assert numbers(await fold(bench.log)) == []
        assert bench.counters.stale == 1

    async def test_an_older_term_cannot_begin_after_a_newer_one(self, bench: LogBench) -> None:
        await leader(bench.log, term=5)

        with pytest.raises(StaleFenceError):
            await leader(bench.other(), term=4)

    async def test_of_two_writers_in_one_term_one_is_refused_and_goes_on_after_folding(self, bench: LogBench) -> None:
        first, second = await leader(bench.log, term=1), bench.other().appender("scheduler")
        await second.start_term(term=1, holder="again")
        won = await second.append([queued(1)], folded_seq=4)

        with pytest.raises(StaleFenceError):
            await first.append([queued(2)], folded_seq=2)
        with pytest.raises(StaleFenceError):
            await first.append([queued(2)], folded_seq=won.first_seq - 2)
        await first.append([queued(3)], folded_seq=won.last_seq)

        assert numbers(await fold(bench.log)) == [1, 3]

    async def test_services_do_not_disturb_each_other(self, bench: LogBench) -> None:
        scheduler, agent = await leader(bench.log), await leader(bench.other(), service="agent")

        await scheduler.append([queued(1)], folded_seq=4)
        await agent.append([Draft("job", JOB, "pods-started", PodsStarted(attempt=1))], folded_seq=4)

        assert [fact.writer for fact in await fold(bench.log)][-2:] == ["agent", "agent"]

    async def test_own_facts_must_be_folded_before_the_next_append(self, bench: LogBench) -> None:
        pen = await leader(bench.log)
        await pen.append([queued(1)], folded_seq=2)

        with pytest.raises(StaleFenceError, match="not folded yet"):
            await pen.append([queued(1)], folded_seq=2)

        assert numbers(await fold(bench.log)) == [1]

    async def test_an_append_without_drafts_renews_the_fence(self, bench: LogBench) -> None:
        pen = await leader(bench.log)

        appended = await pen.append([], folded_seq=2)

        assert (appended.first_seq, appended.last_seq) == (3, 3)
        assert [fact.name for fact in await fold(bench.log)] == ["fence", "term-started", "fence"]

    async def test_splits_at_the_batch_limit_and_keeps_together_what_belongs_together(self, bench: LogBench) -> None:
        pen = await leader(bench.log)
        alone = [queued(n) for n in range(BATCH_MESSAGES_MAX - 2)]
        gang = [queued(n, together="gang") for n in range(1000, 1003)]

        appended = await pen.append([*alone, *gang], folded_seq=2)

        facts = await fold(bench.log, after_seq=2)
        assert [fact.seq - 2 for fact in facts if fact.name == "fence"] == [1, BATCH_MESSAGES_MAX]
        assert numbers(facts) == [*range(BATCH_MESSAGES_MAX - 2), 1000, 1001, 1002]
        assert (appended.first_seq, appended.last_seq) == (2 + BATCH_MESSAGES_MAX, 2 + BATCH_MESSAGES_MAX + 3)
        assert len({fact.id for fact in facts}) == len(facts)

    async def test_refuses_what_cannot_stand_together(self, bench: LogBench) -> None:
        pen = await leader(bench.log)

        with pytest.raises(TogetherTooLargeError):
            await pen.append([queued(n, together="gang") for n in range(BATCH_MESSAGES_MAX)], folded_seq=2)
        await pen.append([queued(1)], folded_seq=2)

        assert numbers(await fold(bench.log)) == [1]

    async def test_refuses_what_the_service_may_not_say(self, bench: LogBench) -> None:
        pen = await leader(bench.log, service="agent")

        drafts = [Draft("job", JOB, "pods-started", PodsStarted(attempt=1)), queued(1)]
        with pytest.raises(DraftsRefusedError, match="agent is not the writer of job queued") as refusal:
            await pen.append(drafts, folded_seq=2)
        assert [(one.index, one.reason) for one in refusal.value.refused] == [(1, Refusal.INVALID)]
        await pen.append(drafts[:1], folded_seq=2)

        assert [fact.name for fact in await fold(bench.log)][2:] == ["fence", "pods-started"]

    async def test_a_full_log_refuses_and_loses_nothing(self, bench: LogBench) -> None:
        log = await bench.full_after(20)
        pen = await leader(log)
        await pen.append([queued(n) for n in range(10)], folded_seq=2)
        before = await fold(log)

        with pytest.raises(LogFullError):
            await pen.append([queued(n) for n in range(500)], folded_seq=before[-1].seq)

        assert await fold(log) == before
        assert bench.counters.full == 1

    async def test_an_unknown_fact_is_skipped(self, bench: LogBench) -> None:
        seq = await bench.put(f"muster.{CLUSTER}.scheduler.job.{JOB}.teleported", None, b"{}")
        await leader(bench.log)

        facts = await fold(bench.log)

        assert [fact.seq for fact in facts] == [seq + 1, seq + 2]
        assert (bench.counters.skipped, bench.counters.dead, await bench.dead()) == (1, 0, [])

    @pytest.mark.parametrize(
        ("writer", "name", "headers", "body"),
        [
            ("scheduler", "queued", envelope_of("queued", writer="scheduler"), b"no json"),
            ("scheduler", "queued", envelope_of("queued", writer="scheduler"), b"{}"),
            ("scheduler", "queued", None, b'{"queue": "q", "attempt": 1}'),
            ("agent", "queued", envelope_of("queued", writer="scheduler"), b'{"queue": "q", "attempt": 1}'),
            ("scheduler", "queued", envelope_of("pods-started", writer="agent"), b'{"queue": "q", "attempt": 1}'),
            ("scheduler", "state-recorded", envelope_of("queued", writer="scheduler"), b"{}"),
        ],
        ids=["no-json", "fields-missing", "no-envelope", "wrong-writer", "other-source", "state-in-a-log"],
    )
    async def test_a_bad_fact_is_a_dead_letter_and_the_log_goes_on(
        self, bench: LogBench, writer: str, name: str, headers: dict[str, str] | None, body: bytes
    ) -> None:
        seq = await bench.put(f"muster.{CLUSTER}.{writer}.job.{JOB}.{name}", headers, body)
        await leader(bench.log)

        facts = await fold(bench.log)

        assert [fact.seq for fact in facts] == [seq + 1, seq + 2]
        assert (bench.counters.dead, await bench.dead()) == (1, [seq])

    async def test_a_dead_letter_stands_once_however_many_read(self, bench: LogBench) -> None:
        seq = await bench.put(f"muster.{CLUSTER}.scheduler.job.{JOB}.queued", None, b"")
        await leader(bench.log)

        for log in (bench.log, bench.other(), bench.log):
            assert len(await fold(log)) == 2

        assert await bench.dead() == [seq]

    async def test_a_reader_is_told_when_the_log_was_trimmed_past_it(self, bench: LogBench) -> None:
        pen = await leader(bench.log)
        await pen.append([queued(n) for n in range(10)], folded_seq=2)
        await bench.purge(8)

        with pytest.raises(FactsMissingError):
            await bench.log.reader(after_seq=5)
        assert numbers(await fold(bench.log, after_seq=8)) == [5, 6, 7, 8, 9]
        assert numbers(await fold(bench.log)) == [5, 6, 7, 8, 9]

    async def test_a_reader_is_told_when_the_store_lost_what_it_read(self, bench: LogBench) -> None:
        await leader(bench.log)

        with pytest.raises(FactsMissingError):
            await bench.log.reader(after_seq=100)
