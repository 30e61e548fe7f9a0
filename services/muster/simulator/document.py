"""YAML (or JSON) text as plain values, read strictly: a key that stands twice is a mistake, not the last one's."""

from typing import TypeVar

import yaml
from pydantic import BaseModel, JsonValue, ValidationError

from muster.simulator.errors import InputError

VALUES_MAX = 5_000_000
"""Values of one document, aliases written out: a few lines of nested aliases can mean billions."""
DEPTH_MAX = 32
TEXT_CHARS_MAX = 64 * 1024 * 1024

_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Model = TypeVar("Model", bound=BaseModel)


def read(text: str) -> JsonValue:
    """The one document of a text, as JSON would hold it. Raises InputError that names the place."""
    if len(text) > TEXT_CHARS_MAX:
        raise InputError("", f"{len(text)} characters, at most {TEXT_CHARS_MAX} are read")
    try:
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark is not None else ""
        said = getattr(error, "problem", None) or str(error)
        raise InputError(where, f"is neither YAML nor JSON: {said}") from error
    except RecursionError as error:
        raise InputError("", f"is nested too deeply: at most {DEPTH_MAX} levels") from error
    return None if root is None else _Walk().value(root, (), 0)


def checked(model: type[Model], value: JsonValue) -> Model:
    """The value as a model; no unknown key. Raises InputError with the path of the first thing that is wrong."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(path(first["loc"]), _said(first["type"], first["msg"])) from error


def path(parts: tuple[int | str, ...]) -> str:
    """`("jobs", 2, "nodes", 0)` as `jobs[2].nodes[0]`."""
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


class _Walk:
    """From YAML's nodes to values, counted. Scalars become what YAML 1.1 says, as far as JSON has it."""

    def __init__(self) -> None:
        self._values = 0
        self._scalars = yaml.constructor.SafeConstructor()

    def value(self, node: yaml.Node, at: tuple[int | str, ...], depth: int) -> JsonValue:
        self._values += 1
        if self._values > VALUES_MAX or depth > DEPTH_MAX:
            raise InputError(path(at), f"more than {VALUES_MAX} values or {DEPTH_MAX} levels, aliases written out")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, at, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*at, index), depth + 1) for index, item in enumerate(node.value)]
        try:
            found: object = self._scalars.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            raise InputError(path(at), f"{node.value!r} cannot be read: {error}") from error
        if found is None or isinstance(found, str | int | float):
            return found
        raise InputError(path(at), f"{node.value!r} is a {type(found).__name__}; write text in quotes, or a number")

    def _mapping(self, node: yaml.MappingNode, at: tuple[int | str, ...], depth: int) -> JsonValue:
        found: dict[str, JsonValue] = {}
        for key_node, value_node in node.value:
            key = self.value(key_node, at, depth + 1)
            if not isinstance(key, str):
                raise InputError(path(at), f"{key!r} is no name of a field; write it in quotes if it is one")
            if key in found:
                line = key_node.start_mark.line + 1
                raise InputError(path((*at, key)), f"stands twice in one mapping, again on line {line}; keep one")
            found[key] = self.value(value_node, (*at, key), depth + 1)
        return found
