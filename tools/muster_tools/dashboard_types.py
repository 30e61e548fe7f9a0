"""The dashboard's types, written from the models of `muster.schemas`: `python -m muster_tools.dashboard_types`."""

import inspect
import types
from collections.abc import Iterable, Iterator
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from muster.cli.output import print_note
from muster.schemas.access import TokenRecord
from muster.schemas.apiserver import ApiServerReport, ClusterView
from muster.schemas.base import InstantNs
from muster.schemas.campaigns import CampaignView
from muster.schemas.conditions import ConditionsAnswer
from muster.schemas.devices import DeviceView, FabricView
from muster.schemas.live import JobReadings, LiveCredential, LiveSlice, LiveTelemetry, OutputPage, Snapshot
from muster.schemas.members import FederationView, RoutesView
from muster.schemas.queries import ScaleChoiceView, WhyAnswer
from muster.schemas.record import Record
from muster.schemas.telemetry import OutputLines
from muster.schemas.usage import Energy, Idle, JobUse, Top
from muster.schemas.views import Problem

FILE = Path(__file__).parents[2] / "services" / "dashboard" / "src" / "models.ts"
Model = type[BaseModel | Record]
Named = type[BaseModel | Record | Enum]
MODELS: tuple[Model, ...] = (
    ApiServerReport,
    CampaignView,
    ClusterView,
    ConditionsAnswer,
    DeviceView,
    Energy,
    FabricView,
    FederationView,
    Idle,
    JobReadings,
    JobUse,
    LiveCredential,
    LiveSlice,
    LiveTelemetry,
    OutputLines,
    OutputPage,
    Problem,
    RoutesView,
    ScaleChoiceView,
    Snapshot,
    TokenRecord,
    Top,
    WhyAnswer,
)
"""What the dashboard asks for and listens to; what they are made of is written with them."""
_HEAD = """\
// Written by `python -m muster_tools.dashboard_types`; the models of `muster.schemas` say what each field means.

/** Nanoseconds since 1970. They lose their last three digits in a JavaScript number, which no screen shows. */
export type InstantNs = number;
"""
_PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def types_of(models: Iterable[Model]) -> str:
    """Return the TypeScript module: an interface of each model, a union of each enumeration, by name."""
    found: dict[str, Named] = {}
    waiting: list[Named] = list(models)
    while waiting:
        one = waiting.pop()
        if one.__name__ in found:
            assert found[one.__name__] is one, f"two models are called {one.__name__}"
            continue
        found[one.__name__] = one
        waiting += [part for hint in _fields(one).values() for part in _named(hint)]
    return "\n".join([_HEAD, *(_declaration(found[name]) for name in sorted(found))])


def _fields(model: Named) -> dict[str, object]:
    """Types of a model's fields, in the order of the wire; an enumeration has none."""
    if issubclass(model, Enum):
        return {}
    hints = get_type_hints(model, include_extras=True)
    names = model.model_fields if issubclass(model, BaseModel) else inspect.signature(model).parameters
    return {name: hints[name] for name in names}


def _named(hint: object) -> Iterator[Named]:
    """Models and enumerations in a type."""
    if isinstance(hint, type) and issubclass(hint, BaseModel | Record | StrEnum):
        yield hint
    arguments: Iterable[object] = get_args(hint)
    for argument in arguments:
        yield from _named(argument)


def _declaration(one: Named) -> str:
    if issubclass(one, Enum):
        return f"export type {one.__name__} = {' | '.join(_quoted(word.value) for word in one)};\n"
    fields = "".join(f"  {name}: {_written(hint)};\n" for name, hint in _fields(one).items())
    return f"export interface {one.__name__} {{\n{fields}}}\n"


def _written(hint: object) -> str:
    """Return a type as TypeScript has it. Raises TypeError for one that no model on the way to the dashboard has."""
    if hint is InstantNs:
        return "InstantNs"
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _written(arguments[0])
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(map(_written, arguments)))
    if origin is Literal:
        return " | ".join(_quoted(str(value)) for value in arguments)
    if origin is tuple and arguments[-1] is Ellipsis:
        item = _written(arguments[0])
        return f"({item})[]" if "|" in item else f"{item}[]"
    if origin is tuple:
        return f"[{', '.join(map(_written, arguments))}]"
    if origin is dict:
        return f"Record<string, {_written(arguments[1])}>"
    if isinstance(hint, type) and hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return "number"
    if isinstance(hint, type) and hint in _named(hint):
        return hint.__name__
    raise TypeError(f"the dashboard has no type for {hint}")


def _quoted(word: str) -> str:
    return f'"{word}"'


if __name__ == "__main__":
    FILE.write_text(types_of(MODELS), encoding="utf-8")
    print_note(f"wrote {FILE}")
