"""One reader for many: nothing is lost, doubled or out of order, whoever joins when."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.clocks import FakeTime
from kit.memory_log import MemoryLog, MemoryReader
from kit.toys import LOG, put_joined
from kit.waiting import until
from muster.bus.nats_log import Hub, Member
from muster.bus.ports import LogReader


def new_log(nodes: int = 0) -> MemoryLog:
    log = MemoryLog(LOG, clock=FakeTime().wall)
    if nodes:
        put_joined(log, *(f"n{index}" for index in range(nodes)))
    return log


async def take(member: Member, until_seq: int, *, limit: int = 100) -> list[int]:
    """Sequences of the facts up to one."""
    seqs: list[int] = []
    async with asyncio.timeout(10):
        while not seqs or seqs[-1] < until_seq:
            seqs += [fact.seq for fact in (await member.read(limit=limit, timeout_s=1)).facts]
    return seqs


async def test_every_member_gets_every_fact_once_and_each_is_decoded_once() -> None:
    log = new_log(50)
    hub = Hub(lambda seq: log.reader(after_seq=seq), read_messages=7)
    members = [await hub.reader(after_seq=0) for _ in range(3)]
    for taken in await asyncio.gather(*(take(member, 50) for member in members)):
        assert taken == list(range(1, 51))
    assert log.counters.decoded == 50
    for member in members:
        await member.close()


async def test_the_slowest_member_holds_the_reader_back() -> None:
    log = new_log(100)
    hub = Hub(lambda seq: log.reader(after_seq=seq), read_messages=10, facts_max=20)
    slow, fast = await hub.reader(after_seq=0), await hub.reader(after_seq=0)
    await take(fast, 20)
    await until(lambda: slow.waiting >= 20)
    await asyncio.sleep(0)
    assert hub.position == 20
    both = await asyncio.gather(take(slow, 100), take(fast, 100))
    assert both == [list(range(1, 101)), list(range(21, 101))]
    for member in (slow, fast):
        await member.close()


async def test_who_comes_from_further_back_catches_up_alone_and_joins() -> None:
    log = new_log(30)
    hub = Hub(lambda seq: log.reader(after_seq=seq))
    first = await hub.reader(after_seq=10)
    await take(first, 30)
    late = await hub.reader(after_seq=5)
    assert await take(late, 12, limit=7) == list(range(6, 13))
    assert not late.is_shared
    assert await take(late, 30, limit=7) == list(range(13, 31))
    assert late.is_shared
    put_joined(log, "more")
    assert await take(late, 31) == await take(first, 31) == [31]


async def test_who_starts_ahead_is_given_nothing_twice() -> None:
    log = new_log(30)
    hub = Hub(lambda seq: log.reader(after_seq=seq), read_messages=7)
    behind = await hub.reader(after_seq=0)
    ahead = await hub.reader(after_seq=17)
    assert await take(ahead, 30) == list(range(18, 31))
    assert await take(behind, 30) == list(range(1, 31))


class Failing:
    """A reader that fails after its first batch."""

    def __init__(self, reader: MemoryReader) -> None:
        self._reader = reader
        self.head, self.closed = reader.head, False

    async def read(self, *, limit: int, timeout_s: float) -> object:
        self.read = self._fail  # type: ignore[method-assign]
        return await self._reader.read(limit=limit, timeout_s=timeout_s)

    async def _fail(self, *, limit: int, timeout_s: float) -> object:
        raise OSError("the broker is gone")

    async def close(self) -> None:
        self.closed = True


async def test_a_failed_reader_is_told_to_all_after_what_it_read_and_a_new_one_opens() -> None:
    log = new_log(5)
    readers: list[LogReader] = [Failing(await log.reader(after_seq=0)), await log.reader(after_seq=0)]  # type: ignore[list-item]

    async def open_reader(seq: int) -> LogReader:
        return readers.pop(0)

    hub = Hub(open_reader)
    members = [await hub.reader(after_seq=0), await hub.reader(after_seq=0)]
    for member in members:
        assert await take(member, 5) == [1, 2, 3, 4, 5]
        with pytest.raises(OSError, match="gone"):
            await member.read(limit=1, timeout_s=1)
        await member.close()
    again = await hub.reader(after_seq=0)
    assert await take(again, 5) == [1, 2, 3, 4, 5]


async def test_a_waiting_member_can_be_woken() -> None:
    hub = Hub(lambda seq: new_log().reader(after_seq=seq))
    member = await hub.reader(after_seq=0)
    reading = asyncio.create_task(member.read(limit=1, timeout_s=60))
    await asyncio.sleep(0)
    member.wake()
    assert (await asyncio.wait_for(reading, 5)).facts == ()


@settings(max_examples=40, deadline=None)
@given(
    starts=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    chunk=st.integers(1, 11),
    room=st.integers(1, 30),
)
def test_whoever_starts_wherever_folds_the_rest_in_order(starts: list[int], chunk: int, room: int) -> None:
    async def all_members() -> None:
        log = new_log(40)
        hub = Hub(lambda seq: log.reader(after_seq=seq), read_messages=chunk, facts_max=room)
        put_joined(log, "last")
        members = [await hub.reader(after_seq=start) for start in starts]
        taken = await asyncio.gather(*(take(member, 41, limit=chunk) for member in members))
        assert taken == [list(range(start + 1, 42)) for start in starts]
        for member in members:
            await member.close()

    asyncio.run(all_members())
