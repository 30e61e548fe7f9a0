"""Wiring only: which webhooks there are, a delivery for each in each log that holds events for it."""

import asyncio
from collections.abc import Iterator
from urllib.parse import urlsplit

from muster.bus.declaration import Declaration
from muster.bus.service import Connect
from muster.bus.settings import Settings
from muster.notifier.catalogue import EVENTS, patterns
from muster.notifier.consumer import Place
from muster.notifier.limits import WEBHOOKS_MAX
from muster.schemas.registry import StreamRole
from muster.schemas.subjects import FED_LOG, cluster_log

DECLARATION = Declaration(
    service="notifier",
    consumes=(StreamRole.LOG, StreamRole.FED),
    consumed=tuple(row for event in EVENTS.values() for row in event.facts),
    publishes=("dead.webhook.*.*.*",),
)


class WebhookSettingsError(ValueError):
    """Settings of webhooks that cannot be; the message names the field."""


class Notifier:
    """A service without a core. Any number of replicas may run: the broker gives each event to one of them."""

    declaration = DECLARATION

    async def run(self, connect: Connect, settings: Settings) -> None:
        """Deliver until cancelled. Without webhooks it connects to nothing."""
        if not settings.webhooks:
            await asyncio.Event().wait()
        from muster.notifier.delivery import run_deliveries  # noqa: PLC0415 - clients of HTTP and Redis, for nothing without any

        client = await connect(DECLARATION.service)
        await run_deliveries(client, settings, tuple(places_of(settings)))


def places_of(settings: Settings) -> Iterator[Place]:
    """Every delivery: a webhook in a log that holds facts of its events."""
    for webhook in settings.webhooks:
        for log in (*map(cluster_log, settings.clusters), FED_LOG):
            if wanted := patterns(webhook.events, log):
                yield Place(log, webhook.name, wanted)


def check(settings: Settings) -> None:
    """Raises WebhookSettingsError, which names the field, for settings that cannot be.

    Files are not looked for: they may be there for the notifier alone.
    """
    if len(settings.webhooks) > WEBHOOKS_MAX:
        raise WebhookSettingsError(f"webhooks: {len(settings.webhooks)} are too many; at most {WEBHOOKS_MAX}")
    names = [webhook.name for webhook in settings.webhooks]
    for webhook in settings.webhooks:
        where = f"webhooks[{webhook.name}]"
        if names.count(webhook.name) > 1:
            raise WebhookSettingsError(f"{where}.name: stands twice; the name is the webhook's place in the log")
        unknown = [name for name in webhook.events if name not in EVENTS]
        if unknown:
            raise WebhookSettingsError(f"{where}.events: {unknown[0]!r} is none of {', '.join(sorted(EVENTS))}")
        if webhook.url is not None and not urlsplit(webhook.url).hostname:
            raise WebhookSettingsError(f"{where}.url: names no host")
        if webhook.url is not None and "@" in urlsplit(webhook.url).netloc:
            raise WebhookSettingsError(f"{where}.url: holds a user or a password; put the whole address in `url_file`")


def services(settings: Settings) -> tuple[Notifier, ...]:
    """One notifier. Raises WebhookSettingsError."""
    check(settings)
    return (Notifier(),)
