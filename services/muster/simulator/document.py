"""YAML (or JSON) text as plain values, read strictly: a key that stands twice is a mistake, not the last one's."""

from typing import TypeVar

import yaml
from pydantic import BaseModel, JsonValue, ValidationError

from muster.core.yaml_text import YamlLimits, YamlTextError, yaml_root
from muster.simulator.errors import InputError

LIMITS = YamlLimits(characters=64 * 1024 * 1024)

Model = TypeVar("Model", bound=BaseModel)


def read(text: str) -> JsonValue:
    """Parse the one document of a text as JSON would hold it. Raises InputError that names the place."""
    try:
        root = yaml_root(text, LIMITS)
    except YamlTextError as error:
        where = error.field or (f"line {error.line}" if error.line else "")
        raise InputError(where, error.problem) from error
    return None if root is None else _Values().value(root, ())


def checked(model: type[Model], value: JsonValue) -> Model:
    """Return the value as a model without unknown keys. Raises InputError with the path of the first problem."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(path(first["loc"]), _said(first["type"], first["msg"])) from error


def path(parts: tuple[int | str, ...]) -> str:
    """Return the path of `("jobs", 2, "nodes", 0)` as `jobs[2].nodes[0]`."""
    written = ""
    for part in parts:
        if isinstance(part, int):
            written += f"[{part}]"
        else:
            written += f".{part}" if written else part
    return written


def _said(kind: str, message: str) -> str:
    match kind:
        case "extra_forbidden":
            return "there is no such field; docs/concepts/simulating.md lists them"
        case "model_type":
            return "is no mapping of fields such as `name: ...`"
        case "missing":
            return "is missing"
        case _:
            return message.removeprefix("Value error, ")


class _Values:
    """From YAML's nodes to values. Scalars become what YAML 1.1 says, as far as JSON has it."""

    def __init__(self) -> None:
        self._scalars = yaml.constructor.SafeConstructor()

    def value(self, node: yaml.Node, at: tuple[int | str, ...]) -> JsonValue:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, at)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*at, index)) for index, item in enumerate(node.value)]
        try:
            found: object = self._scalars.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            raise InputError(path(at), f"{node.value!r} cannot be read: {error}") from error
        if found is None or isinstance(found, str | int | float):
            return found
        raise InputError(path(at), f"{node.value!r} is a {type(found).__name__}; write text in quotes, or a number")

    def _mapping(self, node: yaml.MappingNode, at: tuple[int | str, ...]) -> JsonValue:
        found: dict[str, JsonValue] = {}
        for key_node, value_node in node.value:
            key = self.value(key_node, at)
            if not isinstance(key, str):
                raise InputError(path(at), f"{key!r} is no name of a field; write it in quotes if it is one")
            found[key] = self.value(value_node, (*at, key))
        return found
