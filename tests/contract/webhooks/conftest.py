"""A notifier's harness over a real nats-server in operator mode."""

from collections.abc import AsyncIterator, Iterator

import pytest

from kit.servers import NatsServer, running_nats
from kit.stack.webhooks import ALL_DECLARATIONS, WebhookHarness


@pytest.fixture(scope="module")
def _bus() -> Iterator[NatsServer]:
    with running_nats(declarations=ALL_DECLARATIONS) as server:
        yield server


@pytest.fixture
async def harness(_bus: NatsServer, redis_url: str) -> AsyncIterator[WebhookHarness]:
    """Webhooks of a test have names of their own, so the server is shared by a module."""
    harness = WebhookHarness(_bus, redis_url=redis_url)
    await harness.prepare()
    yield harness
    await harness.end()
