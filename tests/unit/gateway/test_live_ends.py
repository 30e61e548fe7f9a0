"""Connections of dashboards whose token has ended are closed until their credential expires."""

import asyncio

import pytest

from kit.clocks import FakeTime
from kit.http.gateway import FakeConnections, live_ends
from muster.core.instant import NS_PER_S
from muster.gateway.live_connections import CONNECTIONS_MAX, Bearer, Connection, LiveEnds
from muster.gateway.problems import ProblemError

FIRST, SECOND, OTHER = (Connection("server", number) for number in range(3))


class Tokens:
    """Tokens by name, all valid unless they have ended."""

    def __init__(self) -> None:
        self.ended: set[str] = set()
        self.looks = 0

    def bearer(self, name: str) -> Bearer:
        async def is_valid() -> bool:
            self.looks += 1
            return name not in self.ended

        return Bearer(name, is_valid)


class Harness:
    """A gateway whose dashboards have a credential for 20 s."""

    def __init__(self, *, credentials_max: int = 100) -> None:
        self.time = FakeTime()
        self.tokens = Tokens()
        self.broker = FakeConnections()
        self.ends: LiveEnds = live_ends(self.time, self.broker, credentials_max=credentials_max)

    def gives(self, token: str, user: str) -> None:
        self.ends.given(self.tokens.bearer(token), user=user, expires_at_s=self.time.wall() // NS_PER_S + 20)


async def test_connections_of_an_ended_token_are_closed_and_no_others() -> None:
    harness = Harness()
    harness.gives("eve", "UE")
    harness.gives("ann", "UA")
    for user, connection in (("UE", FIRST), ("UE", SECOND), ("UA", OTHER)):
        await harness.ends.opened(user, connection)
    await harness.ends.check()
    assert harness.broker.closed == []
    harness.tokens.ended.add("eve")
    await harness.ends.check()
    await harness.ends.check()
    assert sorted(one.client for one in harness.broker.closed) == [FIRST.client, SECOND.client]


async def test_a_credential_of_an_ended_token_cannot_connect_again() -> None:
    harness = Harness()
    harness.gives("eve", "UE")
    harness.tokens.ended.add("eve")
    await harness.ends.check()
    await harness.ends.opened("UE", FIRST)
    assert harness.broker.closed == [FIRST]
    harness.tokens.ended.clear()  # a source of identities that changes its mind: the credential stays ended
    await harness.ends.check()
    await harness.ends.opened("UE", SECOND)
    assert harness.broker.closed == [FIRST, SECOND]


async def test_what_the_broker_could_not_close_is_closed_at_the_next_look() -> None:
    harness = Harness()
    harness.gives("eve", "UE")
    await harness.ends.opened("UE", FIRST)
    harness.tokens.ended.add("eve")
    harness.broker.fails = "the broker restarts"
    await harness.ends.check()
    harness.broker.fails = ""
    await harness.ends.check()
    assert harness.broker.closed == [FIRST]


async def test_a_credential_makes_a_bounded_number_of_connections() -> None:
    harness = Harness()
    harness.gives("ann", "UA")
    made = [Connection("server", number) for number in range(CONNECTIONS_MAX + 1)]
    for connection in made:
        await harness.ends.opened("UA", connection)
    assert harness.broker.closed == made[-1:]


async def test_a_token_is_looked_at_once_for_all_its_credentials_and_not_after_they_expire() -> None:
    harness = Harness()
    for user in ("U1", "U2", "U3"):
        harness.gives("ann", user)
    await harness.ends.check()
    assert harness.tokens.looks == 1
    harness.time.advance(22)
    await harness.ends.check()
    assert harness.tokens.looks == 1


async def test_credentials_in_use_are_bounded_and_expired_ones_make_room() -> None:
    harness = Harness(credentials_max=2)
    harness.gives("ann", "U1")
    harness.gives("ann", "U2")
    with pytest.raises(ProblemError) as refused:
        harness.gives("ann", "U3")
    assert refused.value.problem.status == 503
    harness.time.advance(22)
    harness.gives("ann", "U3")


async def test_connections_of_other_gateways_are_left_alone() -> None:
    harness = Harness()
    await harness.ends.opened("UX", FIRST)
    await harness.ends.check()
    assert harness.broker.closed == []


async def test_it_looks_until_it_is_cancelled() -> None:
    harness = Harness()
    harness.gives("ann", "U1")
    running = asyncio.create_task(harness.ends.run(check_s=0.001))
    while harness.tokens.looks < 3:  # noqa: ASYNC110 - counts looks
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
