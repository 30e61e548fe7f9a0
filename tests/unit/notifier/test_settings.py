"""Which settings of webhooks can be, and what files they name."""

import asyncio
from pathlib import Path

import pytest
from nats.aio.client import Client
from pydantic import ValidationError

from muster.bus.settings import Settings, WebhookSettings
from muster.notifier.app import Notifier, places_of
from muster.notifier.declaration import WebhookSettingsError, check
from muster.notifier.limits import FILE_BYTES_MAX, WEBHOOKS_MAX
from muster.notifier.sender import WebhookFileError, address, host, keys

URL = "https://chat.example/T1/B2/secret-path"


def a_webhook(**fields: object) -> WebhookSettings:
    return WebhookSettings.model_validate({"name": "pager", "url": URL, "events": ["job-ended"], **fields})


def settings(*webhooks: WebhookSettings) -> Settings:
    return Settings(state_dir=Path("/s"), credentials_dir=Path("/s"), webhooks=webhooks)


@pytest.mark.parametrize(
    ("webhooks", "complaint"),
    [
        ((a_webhook(events=["job-began"]),), r"webhooks\[pager\]\.events: 'job-began' is none of campaign-changed"),
        ((a_webhook(), a_webhook()), r"webhooks\[pager\]\.name: stands twice"),
        ((a_webhook(url="https://"),), r"webhooks\[pager\]\.url: names no host"),
        ((a_webhook(url="https://me:pw@x.example/"),), r"webhooks\[pager\]\.url: holds a user or a password"),
        (tuple(a_webhook(name=f"w{i}") for i in range(WEBHOOKS_MAX + 1)), "at most 64"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused_with_the_field(
    webhooks: tuple[WebhookSettings, ...], complaint: str
) -> None:
    with pytest.raises(WebhookSettingsError, match=complaint) as error:
        check(settings(*webhooks))
    assert "pw" not in str(error.value)


@pytest.mark.parametrize("fields", [{"url": None}, {"url": URL, "url_file": "/x"}])
def test_an_address_is_given_in_one_way(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="`url`, or `url_file`"):
        a_webhook(**fields)


def test_an_event_is_looked_for_in_the_logs_that_can_hold_it() -> None:
    both, one = a_webhook(), a_webhook(name="scale", events=["scale-chosen"])
    found = [(place.webhook, place.log.stream) for place in places_of(settings(both, one))]
    assert found == [("pager", "LOG_local"), ("pager", "FED"), ("scale", "LOG_local")]


def test_an_address_may_stand_in_a_file_and_is_shown_without_its_path(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text(f"{URL}\n")
    kept = a_webhook(url=None, url_file=str(file))
    assert (address(kept), host(kept)) == (URL, "https://chat.example")


def test_a_file_that_cannot_be_used_is_named_and_not_quoted(tmp_path: Path) -> None:
    file = tmp_path / "kept"
    for content, complaint in ((b"ftp://secret", "holds no address"), (b"\xff\xfe", "is not text"),
                               (b"s" * (FILE_BYTES_MAX + 1), "is larger")):  # fmt: skip
        file.write_bytes(content)
        with pytest.raises(WebhookFileError, match=complaint) as error:
            address(a_webhook(url=None, url_file=str(file)))
        assert str(file) in str(error.value)
        assert "ftp" not in str(error.value)
    with pytest.raises(WebhookFileError, match=r"secret: .*missing cannot be read"):
        keys(a_webhook(secret=str(tmp_path / "missing")))
    assert keys(a_webhook()) == ()


async def test_without_webhooks_it_connects_to_nothing() -> None:
    async def connect(user: str) -> Client:
        raise AssertionError(f"connected as {user}")

    running = asyncio.create_task(Notifier().run(connect, settings()))
    await asyncio.wait({running}, timeout=0.05)
    assert not running.done()
    running.cancel()
    await asyncio.wait({running})
