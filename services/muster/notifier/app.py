"""Wire the notifier: one delivery per webhook and log that holds its events."""

import asyncio
from collections.abc import Iterator

from muster.bus.service import Connect
from muster.bus.settings import Settings
from muster.notifier.catalogue import patterns
from muster.notifier.consumer import Place
from muster.notifier.declaration import DECLARATION, check
from muster.schemas.subjects import FED_LOG, cluster_log


class Notifier:
    """The notifier service. It has no core: any number of replicas may run; the broker gives each event to one of
    them."""

    declaration = DECLARATION

    async def run(self, connect: Connect, settings: Settings) -> None:
        """Deliver until cancelled. Without webhooks it opens no connection."""
        if not settings.webhooks:
            await asyncio.Event().wait()
        from muster.notifier.delivery import run_deliveries  # noqa: PLC0415 - not needed without webhooks

        client = await connect(DECLARATION.service)
        await run_deliveries(client, settings, tuple(places_of(settings)))


def places_of(settings: Settings) -> Iterator[Place]:
    """Yield every delivery: a webhook in a log that holds facts of its events."""
    for webhook in settings.webhooks:
        for log in (*map(cluster_log, settings.clusters), FED_LOG):
            if wanted := patterns(webhook.events, log):
                yield Place(log, webhook.name, wanted)


def services(settings: Settings) -> tuple[Notifier, ...]:
    """Return one notifier. Raises WebhookSettingsError."""
    check(settings)
    return (Notifier(),)
