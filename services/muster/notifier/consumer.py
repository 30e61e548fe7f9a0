"""The position of a webhook in a log: one durable consumer each, kept by the broker and shared by all replicas.

One event is under way at a time, and a redelivered event comes before any other, which keeps the order. The broker
counts deliveries of an event, so attempts are counted across restarts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nats.aio.client import Client
from nats.js.client import JetStreamContext
from pydantic import BaseModel, ConfigDict

from muster.bus import jsapi
from muster.bus.names import webhook_consumer
from muster.bus.ports import ApiError
from muster.bus.settings import WebhookSettings
from muster.core.instant import NS_PER_S
from muster.notifier.limits import ANSWER_MARGIN_S, FORGET_S
from muster.schemas.subjects import LogName


class ConsumerState(BaseModel):
    """Progress of a webhook. num_pending: events not delivered yet; num_ack_pending: delivered and not settled."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    num_pending: int = 0
    num_ack_pending: int = 0

    @property
    def waiting(self) -> int:
        """Return the number of events that are not settled."""
        return self.num_pending + self.num_ack_pending


@dataclass(frozen=True, slots=True)
class Place:
    """The source of a webhook's events. patterns: the selected subjects of the log."""

    log: LogName
    webhook: str
    patterns: tuple[str, ...]

    @property
    def consumer(self) -> str:
        """Return the name of the durable consumer."""
        return webhook_consumer(self.webhook)


def consumer_config(webhook: WebhookSettings, patterns: Sequence[str]) -> dict[str, object]:
    """Return the consumer's configuration. A new consumer starts at the log's end; an existing one keeps its
    position."""
    return {
        "durable_name": webhook_consumer(webhook.name),
        "description": "events for a webhook",
        "deliver_policy": "new",
        "ack_policy": "explicit",
        "ack_wait": round((webhook.timeout_s + ANSWER_MARGIN_S) * NS_PER_S),
        "max_deliver": -1,
        "max_ack_pending": 1,
        "filter_subjects": list(patterns),
        "inactive_threshold": round(FORGET_S * NS_PER_S),
    }


async def ensure(client: Client, place: Place, webhook: WebhookSettings) -> None:
    """Create the consumer, or update its filters and times. Raises ApiError, LogUnavailableError."""
    path = f"CONSUMER.CREATE.{place.log.stream}.{place.consumer}"
    config = consumer_config(webhook, place.patterns)
    await jsapi.call(client, path, {"stream_name": place.log.stream, "config": config})


async def look(client: Client, log: LogName, webhook: str) -> ConsumerState | None:
    """Return the progress of the webhook; None if it has no consumer. Raises ApiError, LogUnavailableError."""
    try:
        found = await jsapi.call(client, f"CONSUMER.INFO.{log.stream}.{webhook_consumer(webhook)}")
    except ApiError as error:
        if error.err_code in (jsapi.NO_CONSUMER, jsapi.NO_STREAM):
            return None
        raise
    return ConsumerState.model_validate_json(found)


async def follow(client: Client, place: Place) -> JetStreamContext.PullSubscription:
    """Return a subscription that fetches from the consumer; the caller unsubscribes it."""
    return await client.jetstream().pull_subscribe_bind(consumer=place.consumer, stream=place.log.stream)
