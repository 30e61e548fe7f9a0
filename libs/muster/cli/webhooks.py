"""List the configured webhooks with their undelivered events, and send test messages."""

import asyncio
import base64
import os
from collections.abc import Iterable
from pathlib import Path

from nats.aio.client import Client
from pydantic import JsonValue

from muster.bus.access import ADMIN_TOOLS
from muster.bus.clock import SystemTime
from muster.bus.settings import Settings, WebhookSettings
from muster.cli import output
from muster.cli.bus_session import on_bus, settings_of
from muster.cli.errors import CliError, ExitCode, refused, usage
from muster.cli.options import Output
from muster.cli.output import print_line, print_note
from muster.notifier.app import places_of
from muster.notifier.consumer import look
from muster.notifier.declaration import WebhookSettingsError, check
from muster.notifier.message import make_trial
from muster.notifier.sender import Answer, Sender, WebhookFileError, address, host, keys, new_client
from muster.notifier.signing import PREFIX
from muster.schemas.ids import request_fact_id

HEADINGS = ("NAME", "TO", "FORMAT", "EVENTS", "TEAMS", "SIGNED", "WAITING")
RIGHT = frozenset({"WAITING"})
NONCE_BYTES = 16
KEY_BYTES = 32


def show(state_dir: Path, form: Output) -> None:
    """List all webhooks, in the order of the settings. Raises CliError."""
    settings = _checked(state_dir)
    waiting = _waiting(settings)
    if form is Output.JSON:
        output.emit_json([as_json(webhook, waiting.get(webhook.name)) for webhook in settings.webhooks])
        return
    output.table(HEADINGS, rows(settings.webhooks, waiting), right=RIGHT)


def rows(webhooks: Iterable[WebhookSettings], waiting: dict[str, int]) -> Iterable[tuple[str, ...]]:
    """Return a row per webhook. waiting: undelivered events by name of the webhook, if known."""
    for webhook in webhooks:
        yield (
            webhook.name,
            _host(webhook),
            webhook.format,
            ", ".join(webhook.events),
            ", ".join(webhook.teams) or "all",
            "yes" if webhook.secret else "no",
            str(waiting.get(webhook.name, "-")),
        )


def as_json(webhook: WebhookSettings, waiting: int | None) -> dict[str, JsonValue]:
    """Return a webhook as JSON. Addresses are cut to their host: a path may be a secret."""
    return {
        "name": webhook.name,
        "to": _host(webhook),
        "format": webhook.format,
        "events": list(webhook.events),
        "teams": list(webhook.teams),
        "signed": webhook.secret is not None,
        "waiting": waiting,
    }


def try_out(state_dir: Path, form: Output, *, name: str) -> None:
    """Send a test message and print the response. Raises CliError, also if the receiver rejects it."""
    settings = _checked(state_dir)
    found = [webhook for webhook in settings.webhooks if webhook.name == name]
    if not found:
        known = ", ".join(webhook.name for webhook in settings.webhooks) or "none"
        raise usage(f"NAME: there is no webhook {name!r}; the settings of {state_dir} have: {known}")
    try:
        address(found[0])
        keys(found[0])
    except WebhookFileError as error:
        raise usage(f"webhooks[{name}].{error}") from error
    answer = asyncio.run(_try(found[0]))
    if form is Output.JSON:
        output.emit_json({"status": answer.status, "error": answer.error, "took_s": round(answer.took_s, 3)})
    if not 200 <= answer.status < 300:
        words = f" ({answer.words})" if answer.words else ""
        raise CliError(
            f"{name}: {answer.summary}{words}", code=ExitCode.REFUSED if answer.status else ExitCode.UNREACHABLE
        )
    if form is not Output.JSON:
        print_line(f"{name}: {_host(found[0])} answered {answer.status} in {answer.took_s * 1000:.0f} ms")


def print_secret() -> None:
    """Print KEY_BYTES random bytes, in the form of the Standard Webhooks specification."""
    print_line(PREFIX + base64.b64encode(os.urandom(KEY_BYTES)).decode())


async def _try(webhook: WebhookSettings) -> Answer:
    time = SystemTime()
    message_id = request_fact_id("webhook-test", webhook.name, os.urandom(NONCE_BYTES).hex())
    message = make_trial(webhook.name, message_id=message_id, time_ns=time.wall(), form=webhook.format)
    async with new_client(connections=1) as client:
        return await Sender(client, time).send(webhook, message)


def _checked(state_dir: Path) -> Settings:
    settings = settings_of(state_dir)
    try:
        check(settings)
    except WebhookSettingsError as error:
        raise refused(str(error)) from error
    return settings


def _waiting(settings: Settings) -> dict[str, int]:
    """Return the undelivered events by webhook, without those that the broker does not know."""
    if not settings.webhooks:
        return {}
    try:
        return asyncio.run(on_bus(settings, ADMIN_TOOLS, lambda client: _asked(client, settings)))
    except CliError as error:
        print_note(f"the number of undelivered events is unknown: {error}")
        return {}


async def _asked(client: Client, settings: Settings) -> dict[str, int]:
    waiting: dict[str, int] = {}
    for place in places_of(settings):
        state = await look(client, place.log, place.webhook)
        if state is not None:
            waiting[place.webhook] = waiting.get(place.webhook, 0) + state.waiting
    return waiting


def _host(webhook: WebhookSettings) -> str:
    try:
        return host(webhook)
    except WebhookFileError as error:
        return str(error)
