"""Load files of jobs and other requests, in YAML or JSON. Errors name the file and the field."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue, ValidationError

from muster.cli.errors import usage
from muster.cli.files import read_text
from muster.cli.values import NAME_FORM
from muster.core.yaml_text import YamlLimits, YamlTextError, yaml_values
from muster.schemas.base import BODY_BYTES_MAX, NAME_PATTERN, Wire, parse_request
from muster.schemas.job import JobSpec
from muster.schemas.quantities import QuantityError

NODES_MAX = 200_000  # values in one file, aliases written out: a few lines of nested aliases can mean billions
DEPTH_MAX = 64
LIMITS = YamlLimits(characters=BODY_BYTES_MAX, aliased=NODES_MAX, depth=DEPTH_MAX)

Model = TypeVar("Model", bound=Wire)
Reshape = Callable[[Mapping[str, JsonValue]], dict[str, JsonValue]]
"""From a document as people write it to the model's own fields. Raises QuantityError."""


def load_jobs(path: Path) -> list[JobSpec]:
    """Return the jobs of a file, in its order. Raises CliError that names the file and the field."""
    return load(path, JobSpec)


def load(path: Path, model: type[Model], *, reshape: Reshape = dict) -> list[Model]:
    """Return each document of a YAML or JSON file as `model`; a document may be a list of several."""
    found = [_checked(value, model, place, reshape) for place, value in _documents(path)]
    if not found:
        raise usage(f"{path}: is empty; write one {model.__name__} per document")
    return found


def plain(value: object, *, place: str) -> JsonValue:
    """Return `value` as JSON. Raises CliError on a cycle, a type unknown to JSON, or more than NODES_MAX values."""
    return _Walk(place).copy(value, "", ())


def assignment(text: str, *, example: str) -> tuple[str, str]:
    """Split `FIELD=VALUE` of --set. Raises CliError."""
    field, equals, value = text.partition("=")
    if not equals or not field:
        raise usage(f"--set: {text[:60]!r} is not FIELD=VALUE; write for example --set {example}")
    return field, value


def yaml_value(text: str, *, place: str) -> JsonValue:
    """Return the value of a YAML text, None for an empty one. Raises CliError that names the place."""
    try:
        values = list(yaml_values(text, LIMITS))
    except YamlTextError as error:
        raise usage(f"{place}: {error}; write YAML, with quotes around such text") from error
    return plain(values[0], place=place) if values else None


def _documents(path: Path) -> Iterator[tuple[str, object]]:
    text = read_text(path, bytes_max=BODY_BYTES_MAX, form="YAML or JSON file")
    try:
        documents = yaml_values(text, LIMITS)
    except YamlTextError as error:
        raise usage(f"{path}: {error}") from error
    for number, document in enumerate(documents, start=1):
        place = str(path) if len(documents) == 1 else f"{path}, document {number}"
        if isinstance(document, list):
            yield from ((f"{place}, item {at}", item) for at, item in enumerate(document, start=1))
        elif document is not None:
            yield place, document


def _checked(value: object, model: type[Model], place: str, reshape: Reshape) -> Model:
    body = plain(value, place=place)
    if not isinstance(body, dict):
        raise usage(f"{place}: is a {type(value).__name__}, not a mapping of fields such as `name: ...`")
    try:
        return parse_request(model, json.dumps(reshape(body)))
    except QuantityError as error:
        raise usage(f"{place}: {error}") from error
    except ValidationError as error:
        raise usage(f"{place}: {sentence(error)}") from error


def sentence(error: ValidationError) -> str:
    """Return a validation error as one sentence that names at most three wrong fields."""
    errors = error.errors()
    inner = [one["loc"] for one in errors]
    told = [
        f"{'.'.join(str(part) for part in one['loc']) or 'body'}: {_said(one['msg'])}"
        for one in errors
        if one["type"] != "too_short" or not any(loc[: len(one["loc"])] == one["loc"] != loc for loc in inner)
    ]  # a list whose only item is wrong is not too short as well
    more = f" (and {len(told) - 3} more)" if len(told) > 3 else ""
    return "; ".join(told[:3]) + more


def _said(message: str) -> str:
    cures = {
        "Field required": "is missing; add it",
        "Extra inputs are not permitted": "is no field; check its spelling",
        f"String should match pattern '{NAME_PATTERN}'": f"is no name; {NAME_FORM}",
    }
    return cures.get(message, message)


class _Walk:
    """Copies a parsed document and tracks the position, so that an error can name the field."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._nodes = 0

    def copy(self, value: object, field: str, above: tuple[int, ...]) -> JsonValue:
        self._nodes += 1
        where = f"{self._place}: {field or 'document'}"
        if self._nodes > NODES_MAX:
            raise usage(f"{where}: its aliases expand to more than {NODES_MAX} values; write them out")
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if id(value) in above:
            raise usage(f"{where}: refers to itself (a cyclic alias); write the value out")
        if len(above) > DEPTH_MAX:
            raise usage(f"{where}: is nested deeper than {DEPTH_MAX} levels; flatten it")
        inside = (*above, id(value))
        if isinstance(value, list):
            return [self.copy(item, f"{field}.{at}" if field else str(at), inside) for at, item in enumerate(value)]
        if isinstance(value, dict):
            return {self._key(key, where): self.copy(item, f"{field}.{key}" if field else str(key), inside)
                    for key, item in value.items()}  # fmt: skip
        raise usage(f"{where}: is a {type(value).__name__}, which JSON does not support; put it in quotes")

    @staticmethod
    def _key(key: object, where: str) -> str:
        if not isinstance(key, str):
            raise usage(f"{where}: the key {key!r} is not text; put it in quotes")
        return key
