"""From an event to the bytes of a request. Pure. The same event makes the same bytes, so a retry is a repetition."""

import json
from dataclasses import dataclass

from muster.notifier.events import Body, EventType, Told, Words, rfc3339
from muster.notifier.slack import slack
from muster.schemas.webhooks import Trial, WebhookMessage

CONTENT_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class Message:
    """What is posted. id: of the event, the same for every webhook and every attempt. trace: traceparent, or ""."""

    id: str
    body: bytes
    trace: str = ""


def make_message(event: EventType, told: Told, *, form: str) -> Message:
    """The message of an event. form: `json` or `slack`."""
    fact = told.fact
    body = (
        _slack(event.words(told))
        if form == "slack"
        else _json(event.body(told), message_id=fact.id, name=event.name, time_ns=fact.time)
    )
    return Message(fact.id, body, told.trace)


def make_trial(webhook: str, *, message_id: str, time_ns: int, form: str) -> Message:
    """A message that says nothing but that messages arrive."""
    text = f"Muster can reach the receiver of webhook {webhook}."
    if form == "slack":
        return Message(message_id, _slack(Words(title=f"Test of webhook {webhook}", mood="good", text=text)))
    return Message(
        message_id,
        _json(Trial(webhook=webhook, message=text), message_id=message_id, name="test", time_ns=time_ns),
    )


def _slack(words: Words) -> bytes:
    return json.dumps(slack(words), ensure_ascii=False).encode()


def _json(data: Body, *, message_id: str, name: str, time_ns: int) -> bytes:
    message = WebhookMessage(id=message_id, type=name, timestamp=rfc3339(time_ns), data=data)
    return message.model_dump_json().encode()
