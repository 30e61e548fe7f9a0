"""A webhook's place in a log: one durable consumer each, kept by the broker, so that restarts and replicas share it.

One event is under way at a time, and one that is put back comes again before any other: that is the order. The broker
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
    """How far a webhook is. waiting: events that it has not been offered; under_way: offered and not done with."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    num_pending: int = 0
    num_ack_pending: int = 0

    @property
    def waiting(self) -> int:
        """Events that are not done with."""
        return self.num_pending + self.num_ack_pending


@dataclass(frozen=True, slots=True)
class Place:
    """Where a webhook's events come from. patterns: subjects of the log that it asks for."""

    log: LogName
    webhook: str
    patterns: tuple[str, ...]

    @property
    def consumer(self) -> str:
        """Name of the durable consumer."""
        return webhook_consumer(self.webhook)


def consumer_config(webhook: WebhookSettings, patterns: Sequence[str]) -> dict[str, object]:
    """The consumer as it should be. A new one begins at the log's end; an old one keeps its place."""
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
    """Make the consumer, or bring its filters and times to the settings. Raises ApiError, LogUnavailableError."""
    path = f"CONSUMER.CREATE.{place.log.stream}.{place.consumer}"
    config = consumer_config(webhook, place.patterns)
    await jsapi.call(client, path, {"stream_name": place.log.stream, "config": config})


async def look(client: Client, log: LogName, webhook: str) -> ConsumerState | None:
    """How far the webhook is; None if it has no consumer. Raises ApiError, LogUnavailableError."""
    try:
        found = await jsapi.call(client, f"CONSUMER.INFO.{log.stream}.{webhook_consumer(webhook)}")
    except ApiError as error:
        if error.err_code in (jsapi.NO_CONSUMER, jsapi.NO_STREAM):
            return None
        raise
    return ConsumerState.model_validate_json(found)


async def follow(client: Client, place: Place) -> JetStreamContext.PullSubscription:
    """A subscription that fetches from the consumer; unsubscribe it."""
    return await client.jetstream().pull_subscribe_bind(consumer=place.consumer, stream=place.log.stream)
