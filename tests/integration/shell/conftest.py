"""A real nats-server with the streams of a stack, and processes over it."""

from collections.abc import AsyncIterator

import pytest

from kit.servers import NatsServer
from kit.stack.hosted import HostedServices


@pytest.fixture
async def harness(nats_server: NatsServer) -> AsyncIterator[HostedServices]:
    """Bootstrapped; everything that a test hosts ends with it."""
    harness = HostedServices(nats_server)
    await harness.prepare()
    yield harness
    await harness.end()
