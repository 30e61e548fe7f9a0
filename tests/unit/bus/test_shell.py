"""What a shell promises, over a log in memory."""

import asyncio

import pytest

from kit.memory_log import MemoryAppender
from kit.toys import (
    MemoryHarness,
    MemoryServiceLog,
    Releasing,
    agent,
    bystanders,
    put_checkpoint_request,
    put_joined,
    put_voided,
    scheduler,
)
from kit.waiting import until
from muster.bus.checkpoint import contributors
from muster.bus.fold import PoisonedError
from muster.bus.ports import Appended, StaleFenceError
from muster.bus.shell import UnrecoverableError
from muster.schemas.registry import StreamRole


def released(shell: object) -> set[str]:
    core = shell.core  # type: ignore[attr-defined]
    assert isinstance(core, Releasing)
    return core.released


async def test_a_leader_folds_decides_and_appends_behind_its_fence(harness: MemoryHarness) -> None:
    put_joined(harness.log, "n1", "n2")
    shell = harness.shell(scheduler())
    harness.start(shell)
    await until(lambda: shell.folded_seq and released(shell) == {"n1", "n2"})
    assert [fact.name for fact in harness.facts()] == ["fence", "term-started", "fence", "released", "released"]
    put_joined(harness.log, "n3")
    await until(lambda: "n3" in released(shell))
    assert len(harness.facts("released")) == 3


async def test_two_services_work_together_over_one_log_and_decode_it_once(harness: MemoryHarness) -> None:
    shells = [harness.shell(scheduler()), harness.shell(agent("n1", "n2", "n3"))]
    for shell in shells:
        harness.start(shell)
    await until(lambda: len(harness.facts("released")) == 3)
    await until(lambda: all(shell.folded_seq == harness.log.head_seq for shell in shells))
    assert harness.process.readers_opened == 1
    assert harness.log.counters.decoded == harness.log.head_seq


async def test_a_follower_folds_and_decides_nothing_until_it_takes_over(harness: MemoryHarness) -> None:
    first, second = (harness.shell(scheduler(), process=MemoryServiceLog(harness.log)) for _ in range(2))
    harness.start(first)
    await until(lambda: first.leading)
    harness.leases.free.clear()
    harness.start(second)
    put_joined(harness.log, "n1")
    await until(lambda: second.folded_seq and released(second) == {"n1"})
    assert not second.leading
    harness.leases.held[0].lose()
    harness.leases.free.set()
    await until(lambda: len(harness.facts("term-started")) == 2)
    put_joined(harness.log, "n2")
    await until(lambda: released(first) == released(second) == {"n1", "n2"})
    assert len(harness.facts("released")) == 2
    terms = [fact.payload.term for fact in harness.facts("term-started")]  # type: ignore[attr-defined]
    assert terms == [1, 2]


async def test_a_deposed_leader_that_noticed_nothing_is_refused_and_steps_down(harness: MemoryHarness) -> None:
    first = harness.shell(scheduler(), process=MemoryServiceLog(harness.log))
    harness.start(first)
    await until(lambda: first.leading)
    usurper = harness.log.appender("scheduler")
    await usurper.start_term(term=50, holder="other")
    harness.leases.free.clear()
    put_joined(harness.log, "n1")  # arrives together with the usurper's term: the old leader must not release it
    await until(lambda: not first.leading)
    await until(lambda: first.folded_seq == harness.log.head_seq)
    assert harness.facts("released") == []
    assert harness.leases.released


async def test_a_term_is_later_than_all_that_the_log_knows(harness: MemoryHarness) -> None:
    await harness.log.appender("scheduler").start_term(term=40, holder="before the archive")
    shell = harness.shell(scheduler())
    harness.start(shell)
    await until(lambda: shell.leading)
    assert [fact.payload.term for fact in harness.facts("term-started")] == [40, 41]  # type: ignore[attr-defined]


async def test_a_full_log_is_waited_out_and_loses_nothing(harness: MemoryHarness) -> None:
    shell = harness.shell(scheduler())
    harness.start(shell)
    await until(lambda: shell.leading)
    harness.log.messages_max = harness.log.head_seq + 1
    put_joined(harness.log, "n1")
    await until(lambda: harness.log.counters.full)
    assert shell.leading
    harness.log.messages_max = None
    for _ in range(50):  # the back-off is shorter than these five seconds
        harness.time.advance(0.1)
        await asyncio.sleep(0.002)
    await until(lambda: harness.facts("released"))


async def test_an_append_that_stays_stale_is_not_tried_without_a_pause(
    harness: MemoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = harness.shell(scheduler())
    harness.start(shell)
    await until(lambda: shell.leading)
    tries = 0

    async def refuse(*_: object, **__: object) -> Appended:
        nonlocal tries
        tries += 1
        raise StaleFenceError("nobody knows this fence")

    monkeypatch.setattr(MemoryAppender, "append", refuse)
    put_joined(harness.log, "n1")
    await until(lambda: tries >= 2)
    for _ in range(100):  # the clock stands still, so whoever waits for it does nothing meanwhile
        await asyncio.sleep(0)
    assert tries == 2
    monkeypatch.undo()
    harness.time.advance(2)
    await until(lambda: harness.facts("released"))


async def test_an_idle_leader_renews_its_fence_hourly(harness: MemoryHarness) -> None:
    shell = harness.shell(scheduler())
    harness.start(shell)
    await until(lambda: shell.leading and shell.folded_seq == harness.log.head_seq)
    before = harness.log.head_seq
    harness.time.advance(3599)
    await asyncio.sleep(0.1)
    assert harness.log.head_seq == before
    harness.time.advance(2)
    await until(lambda: harness.log.head_seq == before + 1)
    assert harness.facts()[-1].name == "fence"


async def test_recovery_from_a_checkpoint_equals_folding_everything(harness: MemoryHarness) -> None:
    for service in (agent("n1", "n2"), scheduler(), *bystanders()):
        harness.start(harness.shell(service))
    await until(lambda: len(harness.facts("released")) == 2)
    seq = put_checkpoint_request(harness.log)
    await until(lambda: len(harness.store.parts) == len(contributors(StreamRole.LOG)))
    put_joined(harness.log, "n3")
    await until(lambda: len(harness.facts("released")) == 3)
    await harness.end()
    restored, whole = harness.shell(scheduler()), MemoryHarness()
    whole.log, whole.process = harness.log, MemoryServiceLog(harness.log)
    folding = whole.shell(scheduler())
    harness.start(restored)
    harness.tasks.append(whole.start(folding))
    head = harness.log.head_seq
    await until(lambda: restored.folded_seq >= head and folding.folded_seq >= head)
    assert released(restored) == released(folding) == {"n1", "n2", "n3"}
    assert isinstance(restored.core, Releasing)
    assert isinstance(folding.core, Releasing)
    assert restored.core.joined.keys() == folding.core.joined.keys()
    assert restored.core.states_folded == 4
    assert folding.core.states_folded == 0
    assert seq > 0


async def test_a_service_that_never_ran_starts_on_a_trimmed_log(harness: MemoryHarness) -> None:
    for service in (agent("n1", "n2"), scheduler(), *bystanders()):
        harness.start(harness.shell(service))
    await until(lambda: len(harness.facts("released")) == 2)
    seq = put_checkpoint_request(harness.log)
    await until(lambda: len(harness.store.parts) == len(contributors(StreamRole.LOG)))
    harness.log.purge(seq)
    newcomer = harness.shell(scheduler(), process=MemoryServiceLog(harness.log))
    harness.start(newcomer)
    await until(lambda: newcomer.folded_seq >= seq)
    assert released(newcomer) == {"n1", "n2"}


async def test_a_trimmed_log_without_a_checkpoint_is_not_folded_as_if_it_were_whole(harness: MemoryHarness) -> None:
    put_joined(harness.log, "n1", "n2", "n3")
    harness.log.purge(2)
    with pytest.raises(UnrecoverableError, match="begins at 3"):
        await harness.shell(scheduler()).run()


async def test_a_poisoned_core_stops_its_service_and_no_other(harness: MemoryHarness) -> None:
    poisoned = harness.start(harness.shell(scheduler(lambda: Releasing(poison="n2"))))
    other = harness.shell(agent("n1", "n2"))
    harness.start(other)
    with pytest.raises(PoisonedError, match="scheduler cannot fold node joined") as stopped:
        await asyncio.wait_for(poisoned, 10)
    assert [fact.seq for fact in harness.facts("joined") if fact.subject_id == "n2"] == [stopped.value.seq]
    put_checkpoint_request(harness.log)
    await until(lambda: other.folded_seq == harness.log.head_seq and other.leading)


async def test_a_voided_fact_is_skipped_for_one_service_alone(harness: MemoryHarness) -> None:
    seq = put_joined(harness.log, "n1", "n2")
    put_voided(harness.log, seq, "scheduler")
    spared, other = harness.shell(scheduler(lambda: Releasing(poison="n2"))), harness.shell(agent())
    harness.start(spared)
    harness.start(other)
    await until(lambda: spared.leading and released(spared) == {"n1"})
    await until(lambda: other.folded_seq >= seq and other.core.joined == {"n1", "n2"})  # type: ignore[attr-defined]


async def test_a_shell_that_folds_a_voiding_of_what_it_folded_recovers_anew(harness: MemoryHarness) -> None:
    harness.leases.free.clear()
    seq = put_joined(harness.log, "n1", "n2")
    shell = harness.shell(scheduler())
    harness.start(shell)
    await until(lambda: shell.folded_seq == seq)
    before = shell.core
    assert set(before.joined) == {"n1", "n2"}  # type: ignore[attr-defined]
    put_voided(harness.log, seq, "scheduler")
    await until(lambda: shell.core is not before and shell.folded_seq > seq)
    assert set(shell.core.joined) == {"n1"}  # type: ignore[attr-defined]
