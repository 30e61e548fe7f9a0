"""A shell over the copy of a log: it leads by its lease alone, and writes nothing."""

from kit.toys import MemoryHarness, MemoryServiceLog, Releasing, put_joined, scheduler
from kit.waiting import until
from muster.bus.shell import Shell


def copy_of(harness: MemoryHarness) -> MemoryServiceLog:
    process = MemoryServiceLog(harness.log)
    process.is_copy = True
    return process


def known(shell: Shell) -> int:
    assert isinstance(shell.core, Releasing)
    return shell.folded_seq


async def test_it_folds_and_leads_and_appends_neither_term_nor_fence_nor_decision(harness: MemoryHarness) -> None:
    put_joined(harness.log, "n1", "n2")
    shell = harness.shell(scheduler(), process=copy_of(harness))
    harness.start(shell)
    await until(lambda: shell.leading and known(shell) == 2)
    put_joined(harness.log, "n3")
    await until(lambda: known(shell) == 3)
    assert harness.facts() == []
    assert shell.leading


async def test_terms_of_who_wrote_there_before_depose_nobody(harness: MemoryHarness) -> None:
    writer = harness.shell(scheduler())
    harness.start(writer)
    put_joined(harness.log, "n1")
    await until(lambda: len(harness.facts("released")) == 1)
    await harness.end()
    harness.leases.free.set()
    shell = harness.shell(scheduler(), process=copy_of(harness))
    harness.start(shell)
    await until(lambda: shell.leading and known(shell) == harness.log.head_seq)
    gone = len(harness.leases.released)
    for number in range(2, 5):
        put_joined(harness.log, f"n{number}")
        await until(lambda: known(shell) == harness.log.head_seq)
    assert len(harness.leases.released) == gone
    assert len(harness.facts("term-started")) == 1
