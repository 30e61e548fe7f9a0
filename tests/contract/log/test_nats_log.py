"""The log on a real nats-server keeps the promises of a log, and some that only a network can test."""

from collections.abc import AsyncIterator

import pytest
from nats.aio.client import Client

from contract.log.nats_bench import NatsBench, nats_bench
from contract.log.suite import LogContract
from kit.servers import NatsServer
from muster.bus.nats_log import NatsLog

pytestmark = pytest.mark.connected


@pytest.fixture
async def bench(nats_plain_shared: NatsServer) -> AsyncIterator[NatsBench]:
    async with nats_bench(nats_plain_shared.url) as bench:
        yield bench


class TestNatsLog(LogContract):
    """See `LogContract`."""


async def test_a_pen_that_is_given_after_the_log_was_made_is_used(bench: NatsBench) -> None:
    connections: dict[str, Client] = {}
    log = NatsLog(bench.connection, bench.name, connections=connections)
    connections["scheduler"] = bench.second
    before = bench.second.stats["out_msgs"]
    await log.appender("scheduler").start_term(term=1, holder="late")
    assert bench.second.stats["out_msgs"] > before
