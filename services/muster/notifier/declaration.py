"""Declares what the notifier consumes and publishes. Imports little: a stack reads it before it starts services."""

from urllib.parse import urlsplit

from muster.bus.declaration import Declaration
from muster.bus.settings import Settings
from muster.notifier.catalogue import EVENTS
from muster.notifier.limits import WEBHOOKS_MAX
from muster.schemas.registry import StreamRole

DECLARATION = Declaration(
    service="notifier",
    consumes=(StreamRole.LOG, StreamRole.FED),
    consumed=tuple(row for event in EVENTS.values() for row in event.facts),
    publishes=("dead.webhook.*.*.*",),
)


class WebhookSettingsError(ValueError):
    """Invalid settings of webhooks; the message names the field."""


def check(settings: Settings) -> None:
    """Raise WebhookSettingsError, which names the field, for invalid settings.

    Files are not checked: they may exist for the notifier only.
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
