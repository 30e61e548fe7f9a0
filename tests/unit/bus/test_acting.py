"""When what follows a leader's folds into the world begins and ends: by the lease, and as a rule with a term."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from nats.aio.client import Client

from kit.toys import MemoryHarness, put_joined, scheduler
from kit.waiting import until
from muster.bus.service import LeaderHandle
from muster.core.fact import Core, Fact
from muster.core.instant import Instant, after


@dataclass
class World:
    """A sink. told: what it was told, in order. acted: nodes that it heard of while it might act."""

    told: list[str] = field(default_factory=list)
    acted: list[str] = field(default_factory=list)
    leader: LeaderHandle = field(default_factory=LeaderHandle)

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:
        self.told.append("open")
        self.leader = leader
        assert not leader.leads(), "not before it is open"

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:
        if self.leader.leads():
            self.acted += [fact.subject_id for fact in facts if fact.name == "joined"]

    async def close(self) -> None:
        self.told.append("close")
        assert not self.leader.leads(), "nothing new starts"


def fill(harness: MemoryHarness) -> None:
    """Of the log there is room for these facts, and for no term."""
    put_joined(harness.log, "n1")
    harness.log.messages_max = harness.log.head_seq


async def passing(harness: MemoryHarness, seconds: int = 5) -> None:
    for _ in range(seconds * 10):
        harness.time.advance(0.1)
        await asyncio.sleep(0.002)


async def test_a_service_that_may_serves_by_its_lease_while_the_log_is_too_full_for_its_term(
    harness: MemoryHarness,
) -> None:
    world = World()
    fill(harness)
    shell = harness.shell(replace(scheduler(), sink=lambda: world, acts_without_term=True))
    harness.start(shell)
    await until(lambda: world.told == ["open"])
    assert not shell.leading, "who has no term neither decides nor answers"
    harness.log.messages_max = None
    put_joined(harness.log, "n2")
    await until(lambda: "n2" in world.acted)
    await passing(harness)
    await until(lambda: shell.leading)
    assert world.told == ["open"], "it goes on with what it began"


async def test_who_loses_the_lease_while_it_waits_for_room_acts_no_more(harness: MemoryHarness) -> None:
    world = World()
    fill(harness)
    harness.start(harness.shell(replace(scheduler(), sink=lambda: world, acts_without_term=True)))
    await until(lambda: world.told == ["open"])
    await until(world.leader.leads)
    harness.leases.free.clear()
    harness.leases.held[0].lose()
    assert not world.leader.leads()
    await passing(harness, 1)
    await until(lambda: world.told == ["open", "close"])


async def test_all_others_wait_for_their_term(harness: MemoryHarness) -> None:
    world = World()
    fill(harness)
    shell = harness.shell(replace(scheduler(), sink=lambda: world))
    harness.start(shell)
    await until(lambda: harness.log.counters.full)
    await passing(harness, 1)
    assert world.told == []
    harness.log.messages_max = None
    await passing(harness)
    await until(lambda: world.told == ["open"] and shell.leading)


async def test_what_fails_beside_the_folds_ends_the_shell_though_no_fact_comes(harness: MemoryHarness) -> None:
    world = World()
    shell = harness.shell(replace(scheduler(), sink=lambda: world))
    running = asyncio.create_task(shell.run())
    await until(lambda: shell.leading)
    world.leader.fail(OSError("the port is taken"))
    world.leader.fail(ValueError("a later one"))
    with pytest.raises(OSError, match="the port is taken"):
        await asyncio.wait_for(running, timeout=10)
    assert world.told == ["open", "close"]


async def test_a_sink_is_told_the_moment_at_which_its_service_decides(harness: MemoryHarness) -> None:
    world = World()
    shell = harness.shell(replace(scheduler(), sink=lambda: world))
    harness.start(shell)
    await until(lambda: shell.leading)
    before = world.leader.now()
    harness.time.advance(7)
    assert world.leader.now() == after(before, 7)
