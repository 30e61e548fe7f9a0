"""A notifier's house over a real nats-server in operator mode."""

from collections.abc import AsyncIterator, Iterator

import pytest

from kit.servers import NatsServer, running_nats
from kit.stack.webhooks import ALL_DECLARATIONS, WebhookHouse


@pytest.fixture(scope="module")
def _bus() -> Iterator[NatsServer]:
    with running_nats(declarations=ALL_DECLARATIONS) as server:
        yield server


@pytest.fixture
async def house(_bus: NatsServer, redis_url: str) -> AsyncIterator[WebhookHouse]:
    """Webhooks of a test have names of their own, so the server is shared by a module."""
    house = WebhookHouse(_bus, redis_url=redis_url)
    await house.prepare()
    yield house
    await house.end()
