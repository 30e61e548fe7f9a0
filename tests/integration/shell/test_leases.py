"""Leases in the bucket of a real nats-server, renewed from their own thread."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from kit.stack.hosted import LEASE_TTL_S, HostedServices
from kit.waiting import until
from muster.bus.lease import LeaseThread

pytestmark = pytest.mark.connected


@pytest.fixture
async def two(harness: HostedServices) -> AsyncIterator[tuple[LeaseThread, LeaseThread]]:
    """Two processes' threads."""
    threads = tuple(
        LeaseThread(lambda: harness.server.connect("lease"), holder=name, ttl_s=LEASE_TTL_S) for name in ("a", "b")
    )
    for thread in threads:
        await thread.start()
    yield threads[0], threads[1]
    for thread in threads:
        await thread.close()


async def test_one_holder_at_a_time_and_the_next_has_a_later_term(two: tuple[LeaseThread, LeaseThread]) -> None:
    first = await two[0].acquire("scheduler", "atlas")
    waiting = asyncio.create_task(two[1].acquire("scheduler", "atlas"))
    other = await two[1].acquire("agent", "atlas")
    assert not waiting.done()
    await two[0].release(first)
    second = await asyncio.wait_for(waiting, LEASE_TTL_S)  # it was freed, not waited out
    assert second.term > first.term
    assert not first.held_at(time.monotonic())
    assert other.held_at(time.monotonic())


async def test_a_busy_loop_does_not_lose_its_lease(two: tuple[LeaseThread, LeaseThread]) -> None:
    lease = await two[0].acquire("scheduler", "atlas")
    waiting = asyncio.create_task(two[1].acquire("scheduler", "atlas"))
    end = time.monotonic() + 2 * LEASE_TTL_S
    while time.monotonic() < end:  # this loop's thread decides and decides
        pass
    await asyncio.sleep(0)
    assert lease.held_at(time.monotonic())
    assert not waiting.done()
    waiting.cancel()


async def test_a_lease_that_nobody_renews_goes_to_the_next_and_its_holder_is_told(
    two: tuple[LeaseThread, LeaseThread],
) -> None:
    told: list[bool] = []
    lease = await two[0].acquire("scheduler", "atlas")
    lease.when_lost(lambda: told.append(True))
    assert two[0]._client is not None
    asyncio.run_coroutine_threadsafe(two[0]._client.close(), two[0]._loop)
    heir = await asyncio.wait_for(two[1].acquire("scheduler", "atlas"), 5 * LEASE_TTL_S)
    assert not lease.held_at(time.monotonic())  # its own deadline passed before the broker let go
    await until(lambda: told)
    assert heir.term > lease.term


async def test_an_acquisition_that_is_given_up_holds_nothing(two: tuple[LeaseThread, LeaseThread]) -> None:
    held = await two[0].acquire("scheduler", "atlas")
    waiting = asyncio.create_task(two[1].acquire("scheduler", "atlas"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await two[0].release(held)
    again = await asyncio.wait_for(two[0].acquire("scheduler", "atlas"), LEASE_TTL_S)
    assert again.held_at(time.monotonic())
