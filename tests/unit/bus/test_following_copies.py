"""A shell over the copy of a log: it leads by its lease alone, and writes nothing."""

from kit.toys import MemoryHouse, MemoryServiceLog, Releasing, put_joined, scheduler
from kit.waiting import until
from muster.bus.shell import Shell


def copy_of(house: MemoryHouse) -> MemoryServiceLog:
    process = MemoryServiceLog(house.log)
    process.is_copy = True
    return process


def known(shell: Shell) -> int:
    assert isinstance(shell.core, Releasing)
    return shell.folded_seq


async def test_it_folds_and_leads_and_appends_neither_term_nor_fence_nor_decision(house: MemoryHouse) -> None:
    put_joined(house.log, "n1", "n2")
    shell = house.shell(scheduler(), process=copy_of(house))
    house.start(shell)
    await until(lambda: shell.leading and known(shell) == 2)
    put_joined(house.log, "n3")
    await until(lambda: known(shell) == 3)
    assert house.facts() == []
    assert shell.leading


async def test_terms_of_who_wrote_there_before_depose_nobody(house: MemoryHouse) -> None:
    writer = house.shell(scheduler())
    house.start(writer)
    put_joined(house.log, "n1")
    await until(lambda: len(house.facts("released")) == 1)
    await house.end()
    house.leases.free.set()
    shell = house.shell(scheduler(), process=copy_of(house))
    house.start(shell)
    await until(lambda: shell.leading and known(shell) == house.log.head_seq)
    gone = len(house.leases.released)
    for number in range(2, 5):
        put_joined(house.log, f"n{number}")
        await until(lambda: known(shell) == house.log.head_seq)
    assert len(house.leases.released) == gone
    assert len(house.facts("term-started")) == 1
