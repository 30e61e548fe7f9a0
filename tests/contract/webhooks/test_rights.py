"""What the notifier's user may do on a real nats-server, and what not."""

import asyncio

import pytest

from kit.servers import CLUSTER
from kit.stack.webhooks import LOG, WebhookHarness
from muster.bus.batches import Outgoing
from muster.bus.requests import Outcome, append_single, publish
from muster.core.fact import Draft
from muster.schemas.facts.job import JobFinished
from muster.schemas.subjects import FED_LOG

pytestmark = pytest.mark.connected

FORBIDDEN = (
    f"muster.{CLUSTER}.scheduler.job.J.succeeded",
    "muster.fed.federation._.job.J.cancelled",
    f"dead.{LOG.stream}.5",
    "$KV.tokens.x",
    "$KV.leases.x",
    f"$JS.API.STREAM.PURGE.{LOG.stream}",
    f"$JS.API.STREAM.DELETE.{FED_LOG.stream}",
    f"$JS.API.CONSUMER.CREATE.TELEMETRY_{CLUSTER}",
    f"query.{CLUSTER}.scheduler.why",
)  # fmt: skip


@pytest.mark.parametrize("subject", FORBIDDEN)
async def test_it_may_not_write_facts_nor_rule_streams_nor_ask(harness: WebhookHarness, subject: str) -> None:
    refusals: asyncio.Queue[str] = asyncio.Queue()

    async def told(error: Exception) -> None:
        refusals.put_nowait(str(error).lower())

    client = await harness.server.connect("notifier", error_cb=told)
    await client.publish(subject, b"")
    await client.flush()
    assert subject.lower() in await asyncio.wait_for(refusals.get(), 5)
    await client.close()


async def test_a_dead_letter_of_an_event_stands_once_however_often_it_is_written(harness: WebhookHarness) -> None:
    client = await harness.client("notifier")
    letters = [Outgoing("dead.webhook.once.LOG_atlas.7", {"Nats-Msg-Id": f"m{i}"}, b"") for i in range(2)]
    stored = [await publish(client, letter, expect_new=True) for letter in letters]
    assert [one.outcome for one in stored] == [Outcome.STORED, Outcome.EXISTS]


async def test_it_cannot_pass_for_a_writer_of_facts(harness: WebhookHarness) -> None:
    client = await harness.client("notifier")
    draft = Draft("job", "J", "succeeded", JobFinished())
    stored = await append_single(client, LOG, service="scheduler", draft=draft, fact_id="forged", timeout_s=0.3)
    assert stored.outcome is Outcome.UNAVAILABLE
