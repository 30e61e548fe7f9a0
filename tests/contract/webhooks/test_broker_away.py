"""What the broker does to webhooks: it restarts, and it may lose a consumer."""

from collections.abc import Iterator

import pytest

from kit.loopback import served
from kit.servers import NatsServer, running_nats
from kit.stack.webhooks import ALL_DECLARATIONS, LOG, Receiver, WebhookHarness, webhook
from kit.waiting import until, until_async
from muster.bus import jsapi
from muster.bus.names import webhook_consumer

pytestmark = pytest.mark.connected


@pytest.fixture(scope="module")
def _bus() -> Iterator[NatsServer]:
    """A server that a test may restart."""
    with running_nats(declarations=ALL_DECLARATIONS) as server:
        yield server


async def test_a_broker_that_is_killed_loses_no_event_though_it_may_tell_one_twice(harness: WebhookHarness) -> None:
    receiver = Receiver()
    async with served(receiver) as url:
        await harness.notify(webhook("restarts", url, timeout_s=1))
        before = await harness.job("before")
        await receiver.until(1)
        harness.server.restart()
        harness.clients.clear()
        after = await harness.job("after")
        await until(lambda: receiver.received[-1].id == after)
    assert {request.id for request in receiver.received} == {before, after}


async def test_a_consumer_that_is_gone_is_made_anew(harness: WebhookHarness) -> None:
    receiver = Receiver()
    async with served(receiver) as url:
        await harness.notify(webhook("deleted", url))
        await jsapi.call(
            await harness.client("notifier"), f"CONSUMER.DELETE.{LOG.stream}.{webhook_consumer('deleted')}"
        )
        await until_async(lambda: harness.has_place("deleted"))
        fact = await harness.job("still")
        await receiver.until(1)
    assert receiver.received[0].id == fact
