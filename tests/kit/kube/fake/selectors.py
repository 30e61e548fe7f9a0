"""Label and field selectors as the API server reads them."""

import re
from collections.abc import Callable, Mapping

from muster.kube.objects import JsonObject, at, strings

Matches = Callable[[JsonObject], bool]
_SET = re.compile(r"^\s*(\S+)\s+(in|notin)\s+\(([^)]*)\)\s*$")


def matcher(labels: str, fields: str) -> Matches:
    """Whether an object is selected. Raises ValueError for what is no selector."""
    of_labels = [_label(part) for part in _parts(labels)]
    of_fields = [_field(part) for part in _parts(fields)]

    def matches(obj: JsonObject) -> bool:
        found = strings(obj, "metadata", "labels")
        return all(is_so(found) for is_so in of_labels) and all(is_so(obj) for is_so in of_fields)

    return matches


def _parts(selector: str) -> list[str]:
    """Split at commas outside of parentheses."""
    return [part for part in re.split(r",(?![^(]*\))", selector) if part.strip()]


def _label(part: str) -> Callable[[Mapping[str, str]], bool]:
    if match := _SET.match(part):
        key, operator, listed = match.groups()
        values = {value.strip() for value in listed.split(",")}
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    for operator in ("!=", "==", "="):
        if operator in part:
            key, value = (side.strip() for side in part.split(operator, 1))
            if operator == "!=":
                return lambda labels: labels.get(key) != value
            return lambda labels: labels.get(key) == value
    name = part.strip()
    if name.startswith("!"):
        return lambda labels: name[1:] not in labels
    return lambda labels: name in labels


def _field(part: str) -> Callable[[JsonObject], bool]:
    for operator in ("!=", "==", "="):
        if operator in part:
            path, value = (side.strip() for side in part.split(operator, 1))
            keys = path.split(".")
            if operator == "!=":
                return lambda obj: (at(obj, *keys) or "") != value
            return lambda obj: (at(obj, *keys) or "") == value
    raise ValueError(f"invalid field selector {part!r}")
