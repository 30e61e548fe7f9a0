"""Evaluate the JSONPath templates of `kubectl -o jsonpath`, in the subset that scripts use. Pure.

A template is text with expressions in braces: `{.items[*].name}`. An expression is a path of `.field`, `['field']`,
`[index]` (negative from the end), `[*]` and `.*`, or a quoted text such as `{"\\n"}`. Several values are separated by
spaces. `range`, filters, slices and `..` are not supported. A missing field or index has no value, as in kubectl.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

TEMPLATE_CHARS_MAX = 2_000
STEPS_MAX = 32
"""Maximum steps of one path."""

_STEP = re.compile(
    r"""\.(?P<field>[A-Za-z_][A-Za-z0-9_-]*)|\[(?P<quote>['"])(?P<quoted>[^'"\]]+)(?P=quote)\]"""
    r"""|\[(?P<index>-?[0-9]{1,9})\]|(?P<all>\[\*\]|\.\*)"""
)
_PART = re.compile(r"""\{(?P<expression>(?:[^{}"']|"[^"]*"|'[^']*')*)\}|(?P<text>[^{}]+)""")


class JsonPathError(ValueError):
    """The template is not in the supported subset."""


class EveryValue:
    """The step `[*]`: every item of a list or value of an object."""


Step = str | int | EveryValue


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A parsed template: a sequence of texts and paths."""

    parts: tuple[str | tuple[Step, ...], ...]

    def apply(self, document: JsonValue) -> str:
        """Return the template with the values of the document."""
        return "".join(
            part if isinstance(part, str) else " ".join(map(_text, _values(document, part))) for part in self.parts
        )


def parse(template: str) -> JsonPath:
    """Parse a template; one without braces is a single expression. Raises JsonPathError."""
    if len(template) > TEMPLATE_CHARS_MAX:
        raise JsonPathError(f"the template has more than {TEMPLATE_CHARS_MAX} characters")
    written = template if "{" in template else f"{{{template}}}"
    parts: list[str | tuple[Step, ...]] = []
    at = 0
    while at < len(written):
        found = _PART.match(written, at)
        if found is None:
            raise JsonPathError(f"{written[at : at + 40]!r} has no closing brace or quote")
        parts.append(found["text"] if found["text"] is not None else _expression(found["expression"].strip()))
        at = found.end()
    return JsonPath(tuple(parts))


def _expression(text: str) -> str | tuple[Step, ...]:
    if text[:1] in ("'", '"'):
        return text[1:-1].replace("\\n", "\n").replace("\\t", "\t")
    steps: list[Step] = []
    at = 1 if text.startswith("$") else 0
    if text[at:] == ".":
        return ()
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None or len(steps) == STEPS_MAX:
            raise JsonPathError(
                f"{text[at : at + 40]!r} is not a supported step; use .field, ['field'], [0], [*] or .*"
            )
        steps.append(_step(found))
        at = found.end()
    if not steps:
        raise JsonPathError("an expression is empty; write for example {.items[*].name}")
    return tuple(steps)


def _step(found: re.Match[str]) -> Step:
    if found["index"] is not None:
        return int(found["index"])
    return EveryValue() if found["all"] else found["field"] or found["quoted"]


def _values(document: JsonValue, steps: Sequence[Step]) -> Sequence[JsonValue]:
    found: Sequence[JsonValue] = [document]
    for step in steps:
        found = [value for one in found for value in _next(one, step)]
    return found


def _next(value: JsonValue, step: Step) -> Iterable[JsonValue]:
    match step, value:
        case EveryValue(), list():
            return value
        case EveryValue(), dict():
            return value.values()
        case int(), list():
            return [value[step]] if -len(value) <= step < len(value) else []
        case str(), dict():
            return [value[step]] if step in value else []
    return []


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)
