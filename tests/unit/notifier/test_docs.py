"""docs/webhooks.md says what the code does."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

from kit.doc_blocks import DOCS, block, blocks
from muster.bus.settings import Settings, WebhookSettings
from muster.notifier.catalogue import EVENTS
from muster.notifier.declaration import check
from muster.notifier.delivery import Policy, backoff_s
from muster.notifier.signing import parse_secrets, signature
from muster.schemas.webhooks import JobEnded, WebhookMessage

PAGE = "webhooks.md"
KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_the_settings_of_the_page_can_be() -> None:
    shown = json.loads(blocks(PAGE, "json")[0])
    check(Settings(state_dir=Path("/s"), credentials_dir=Path("/s"), **shown))


def test_the_message_of_the_page_has_every_field_that_messages_have() -> None:
    shown = json.loads(blocks(PAGE, "json")[1])
    WebhookMessage.model_validate(shown)
    assert set(shown["data"]) == set(JobEnded.model_fields)


def test_the_page_names_every_field_and_every_event() -> None:
    text = (DOCS / PAGE).read_text()
    for name in (*WebhookSettings.model_fields, *EVENTS):
        assert f"`{name}`" in text, name


def test_the_page_says_how_long_all_attempts_take() -> None:
    defaults = WebhookSettings(name="a", url="http://a", events=("job-ended",))
    policy = Policy(defaults.attempts_max, defaults.backoff_s, defaults.backoff_s_max)
    minutes = sum(backoff_s(n, message_id="x", policy=policy) for n in range(1, defaults.attempts_max)) / 60
    (said,) = re.findall(r"about (\d+) min in all", (DOCS / PAGE).read_text())
    assert abs(minutes - int(said)) < 0.2 * int(said)


def test_the_pages_way_to_check_a_signature_tells_true_from_false() -> None:
    names: dict[str, object] = {}
    exec(block(PAGE, "python"), names)
    is_ours = cast("Callable[[str, dict[str, str], bytes], bool]", names["is_ours"])
    now_s = int(time.time())
    body = b'{"type": "job-ended"}'
    signed = signature(parse_secrets(KEY), message_id="m", timestamp_s=now_s, body=body)
    headers = {"webhook-id": "m", "webhook-timestamp": str(now_s), "webhook-signature": f"v1,AAAA {signed}"}
    assert is_ours(KEY, headers, body)
    assert not is_ours(KEY, headers, body + b" ")
    assert not is_ours(KEY, {**headers, "webhook-id": "n"}, body)
    old = signature(parse_secrets(KEY), message_id="m", timestamp_s=now_s - 600, body=body)
    assert not is_ours(KEY, {**headers, "webhook-timestamp": str(now_s - 600), "webhook-signature": old}, body)
