"""The log on a real nats-server keeps the promises of a log, and some that only a network can test."""

from collections.abc import AsyncIterator

import pytest

from contract.log.nats_bench import NatsBench, nats_bench
from contract.log.suite import LogContract
from servers import NatsServer

pytestmark = pytest.mark.connected


@pytest.fixture
async def bench(nats_plain_shared: NatsServer) -> AsyncIterator[NatsBench]:
    async with nats_bench(nats_plain_shared.url) as bench:
        yield bench


class TestNatsLog(LogContract):
    """See `LogContract`."""
