"""Encode an event as the bytes of a request. Pure. The same event gives the same bytes on every retry."""

import json
from dataclasses import dataclass

from pydantic import JsonValue

from muster.notifier.events import AnyEvent, Body, ChatText, EventSource, rfc3339
from muster.schemas.webhooks import Trial, WebhookMessage

HEADER_MAX = 150
TEXT_MAX = 2_900
FIELDS_MAX = 10
FIELD_MAX = 1_900
_SIGNS = {"good": ":white_check_mark:", "bad": ":x:", "plain": ":information_source:"}


def slack(words: ChatText) -> dict[str, JsonValue]:
    """Return the Slack document to post."""
    title = f"{_SIGNS[words.mood]} {words.title}"
    blocks: list[JsonValue] = [
        {"type": "header", "text": {"type": "plain_text", "text": cut(title, HEADER_MAX), "emoji": True}}
    ]
    if words.text:
        blocks.append({"type": "section", "text": _markdown(cut(escaped(words.text), TEXT_MAX))})
    lines = [(name, value) for name, value in words.lines if value]
    if lines:
        fields: list[JsonValue] = [
            _markdown(cut(f"*{escaped(name)}*\n{escaped(value)}", FIELD_MAX)) for name, value in lines[:FIELDS_MAX]
        ]
        blocks.append({"type": "section", "fields": fields})
    if words.url:
        blocks.append({"type": "context", "elements": [_markdown(f"<{escaped(words.url)}|Open in Muster>")]})
    return {"text": cut(escaped(title), TEXT_MAX), "blocks": blocks}


def escaped(text: str) -> str:
    """Escape Slack's three control characters, so that a job's name cannot mention a channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def cut(text: str, characters_max: int) -> str:
    """Return at most `characters_max` characters, the last one an ellipsis if the text was cut."""
    return text if len(text) <= characters_max else f"{text[: characters_max - 1]}…"


def _markdown(text: str) -> dict[str, JsonValue]:
    return {"type": "mrkdwn", "text": text}


CONTENT_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class Message:
    """A message to post. id: of the event, the same for every webhook and attempt. trace: traceparent, or ""."""

    id: str
    body: bytes
    trace: str = ""


def make_message(event: AnyEvent, source: EventSource, *, form: str) -> Message:
    """Return the message of an event. form: `json` or `slack`."""
    fact = source.fact
    body = (
        _slack(event.chat(source))
        if form == "slack"
        else _json(event.body(source), message_id=fact.id, name=event.name, time_ns=fact.time)
    )
    return Message(fact.id, body, source.trace)


def make_trial(webhook: str, *, message_id: str, time_ns: int, form: str) -> Message:
    """Return a test message."""
    text = f"Muster can reach the receiver of webhook {webhook}."
    if form == "slack":
        return Message(message_id, _slack(ChatText(title=f"Test of webhook {webhook}", mood="good", text=text)))
    return Message(
        message_id,
        _json(Trial(webhook=webhook, message=text), message_id=message_id, name="test", time_ns=time_ns),
    )


def _slack(words: ChatText) -> bytes:
    return json.dumps(slack(words), ensure_ascii=False).encode()


def _json(data: Body, *, message_id: str, name: str, time_ns: int) -> bytes:
    message = WebhookMessage(id=message_id, type=name, timestamp=rfc3339(time_ns), data=data)
    return message.model_dump_json().encode()
