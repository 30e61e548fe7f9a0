"""Leases in virtual time over a store in memory."""

import asyncio

import pytest

from kit.clocks import FakeTime
from muster.bus.clock import Clock
from muster.bus.lease import Claim, Lease, LeaseKeeper, LeaseTakenError
from muster.bus.limits import LEASE_TOLD_S
from muster.bus.ports import LogUnavailableError

TTL_S = 3.0


class MemoryStore:
    """Keys with revisions; forgets what is older than the time to live, as the bucket does."""

    def __init__(self, time: FakeTime) -> None:
        self.time = time
        self.away = False
        self._revision = 0
        self._keys: dict[str, tuple[int, float]] = {}

    async def create(self, key: str, holder: str) -> int:
        if self._standing(key):
            raise LeaseTakenError(key)
        return self._store(key)

    async def update(self, key: str, holder: str, *, last: int) -> int:
        if self._standing(key) != last:
            raise LeaseTakenError(key)
        return self._store(key)

    async def delete(self, key: str, *, last: int) -> None:
        if self._standing(key) != last:
            raise LeaseTakenError(key)
        del self._keys[key]

    def _standing(self, key: str) -> int:
        if self.away:
            raise LogUnavailableError("no answer")
        revision, stored_s = self._keys.get(key, (0, 0.0))
        return revision if revision and self.time.elapsed_s - stored_s < TTL_S else 0

    def _store(self, key: str) -> int:
        self._revision += 1
        self._keys[key] = (self._revision, self.time.elapsed_s)
        return self._revision


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def store(time: FakeTime) -> MemoryStore:
    return MemoryStore(time)


def keeper(store: MemoryStore, holder: str = "a") -> LeaseKeeper:
    return LeaseKeeper(store, holder=holder, ttl_s=TTL_S, clock=Clock(store.time))


def test_a_lease_is_not_a_truth() -> None:
    lease = Lease("scheduler.atlas", term=1, deadline_s=10)
    with pytest.raises(TypeError, match="held_at"):
        bool(lease)


async def test_it_is_held_until_its_deadline(store: MemoryStore, time: FakeTime) -> None:
    lease = await keeper(store).acquire("scheduler", "atlas")
    time.advance(2.9)
    assert lease.held_at(time.monotonic_s())
    time.advance(0.1)
    assert not lease.held_at(time.monotonic_s())


async def test_renewals_keep_the_term_and_move_the_deadline(store: MemoryStore, time: FakeTime) -> None:
    leases = keeper(store)
    lease = await leases.acquire("scheduler", "atlas")
    for _ in range(5):
        time.advance(2)
        await leases.renew_all()
        assert lease.deadline_s == time.monotonic_s() + TTL_S
    assert lease.term == 1
    assert lease.revision == 6


async def test_a_renewal_that_comes_too_late_loses_it_and_says_so_once(store: MemoryStore, time: FakeTime) -> None:
    leases, told = keeper(store), list[bool]()
    lease = await leases.acquire("scheduler", "atlas")
    lease.when_lost(lambda: told.append(True))
    time.advance(TTL_S)
    heir = await keeper(store, "b").acquire("scheduler", "atlas")
    await leases.renew_all()
    await leases.renew_all()
    assert told == [True]
    assert not lease.held_at(time.monotonic_s())
    assert heir.term > lease.term


async def test_a_broker_that_is_away_costs_the_lease_only_at_its_deadline(store: MemoryStore, time: FakeTime) -> None:
    leases = keeper(store)
    lease = await leases.acquire("scheduler", "atlas")
    store.away = True
    time.advance(2)
    await leases.renew_all()
    assert lease.held_at(time.monotonic_s())
    time.advance(1)
    await leases.renew_all()
    assert lease.is_lost


async def test_a_claim_given_up_while_the_broker_answers_holds_nothing(store: MemoryStore) -> None:
    """Found by a service that failed in the moment in which it got its lease: nobody released it, all renewed it."""
    leases, claim = keeper(store), Claim("scheduler.atlas")
    create = store.create

    async def answer_late(key: str, holder: str) -> int:
        revision = await create(key, holder)
        await leases.give_up(claim)
        return revision

    store.create = answer_late  # type: ignore[method-assign]
    await leases.take(claim)
    store.create = create  # type: ignore[method-assign]
    await leases.renew_all()
    await asyncio.wait_for(keeper(store, "b").acquire("scheduler", "atlas"), 1)


async def test_a_claim_given_up_after_it_has_its_lease_holds_nothing(store: MemoryStore) -> None:
    leases, claim = keeper(store), Claim("scheduler.atlas")
    await leases.take(claim)
    await leases.give_up(claim)
    await asyncio.wait_for(keeper(store, "b").acquire("scheduler", "atlas"), 1)


async def test_what_is_released_is_free_at_once(store: MemoryStore) -> None:
    leases = keeper(store)
    lease = await leases.acquire("scheduler", "atlas")
    await leases.release(lease)
    heir = await asyncio.wait_for(keeper(store, "b").acquire("scheduler", "atlas"), 1)
    assert heir.term > lease.term


async def test_why_no_lease_can_be_taken_is_said_now_and_then(
    time: FakeTime, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.away = True
    held = keeper(store)
    asking: list[asyncio.Task[None]] = []

    async def said_after_another_asked() -> int:
        asking.append(asyncio.create_task(held.take(Claim(f"scheduler.c{len(asking)}"))))
        await asyncio.sleep(0)
        return len(caplog.records)

    assert [await said_after_another_asked(), await said_after_another_asked()] == [1, 1]
    time.advance(LEASE_TOLD_S)
    assert await said_after_another_asked() == 2
    assert caplog.messages[0] == "lease scheduler.c0 cannot be taken yet: no answer"
    for taking in asking:
        taking.cancel()
