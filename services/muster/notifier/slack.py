"""A message as Slack's incoming webhooks take it: text for notifications, Block Kit for the channel. Pure.

Limits are Block Kit's: 150 characters of a header, 3,000 of a text, 10 fields of 2,000 each.
"""

from pydantic import JsonValue

from muster.notifier.events import Words

HEADER_MAX = 150
TEXT_MAX = 2_900
FIELDS_MAX = 10
FIELD_MAX = 1_900
_SIGNS = {"good": ":white_check_mark:", "bad": ":x:", "plain": ":information_source:"}


def slack(words: Words) -> dict[str, JsonValue]:
    """The document to post."""
    title = f"{_SIGNS[words.mood]} {words.title}"
    blocks: list[JsonValue] = [
        {"type": "header", "text": {"type": "plain_text", "text": cut(title, HEADER_MAX), "emoji": True}}
    ]
    if words.text:
        blocks.append({"type": "section", "text": _markdown(cut(escaped(words.text), TEXT_MAX))})
    if words.lines:
        fields: list[JsonValue] = [
            _markdown(cut(f"*{escaped(name)}*\n{escaped(value)}", FIELD_MAX))
            for name, value in words.lines[:FIELDS_MAX]
        ]
        blocks.append({"type": "section", "fields": fields})
    if words.url:
        blocks.append({"type": "context", "elements": [_markdown(f"<{escaped(words.url)}|Open in Muster>")]})
    return {"text": cut(escaped(title), TEXT_MAX), "blocks": blocks}


def escaped(text: str) -> str:
    """With Slack's three control characters as entities: whoever names a job cannot mention a channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def cut(text: str, characters_max: int) -> str:
    """At most so many characters, the last one an ellipsis if something is missing."""
    return text if len(text) <= characters_max else f"{text[: characters_max - 1]}…"


def _markdown(text: str) -> dict[str, JsonValue]:
    return {"type": "mrkdwn", "text": text}
