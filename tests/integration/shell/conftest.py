"""A real nats-server with the streams of a stack, and processes over it."""

from collections.abc import AsyncIterator

import pytest

from hosted_services import HostedServices
from servers import NatsServer


@pytest.fixture
async def house(nats_server: NatsServer) -> AsyncIterator[HostedServices]:
    """Bootstrapped; everything that a test hosts ends with it."""
    house = HostedServices(nats_server)
    await house.prepare()
    yield house
    await house.end()
