"""Records that cores change in place and that are also read and written as JSON, with one class for both."""

import dataclasses
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from operator import attrgetter
from typing import ClassVar, Literal, Self, TypeVar, cast, get_args

from pydantic import ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, JsonValue, TypeAdapter
from pydantic.json_schema import JsonSchemaMode, JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from muster.schemas.base import Payload, Wire

Body = TypeVar("Body", bound="StateRecord")


class Record:
    """A record that is read and written as wire models are; only input is validated.

    Subclasses are dataclasses with slots, so that a core changes them in place.
    """

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="ignore",  # newer writers may have added fields
        use_attribute_docstrings=True,
    )

    @classmethod
    def model_validate(cls, value: object) -> Self:
        """Read a record from plain values. Raises pydantic.ValidationError."""
        return cast("Self", _adapter(cls).validate_python(value))

    @classmethod
    def model_validate_json(cls, body: bytes | str) -> Self:
        """Read a record from JSON. Raises pydantic.ValidationError."""
        return cast("Self", _adapter(cls).validate_json(body))

    def model_copy(self, *, update: Mapping[str, object]) -> Self:
        """Return a copy with other values in these fields, which are not validated."""
        assert dataclasses.is_dataclass(self), f"{type(self).__name__} is a dataclass"
        return dataclasses.replace(self, **update)

    def model_dump(
        self, *, mode: Literal["json", "python"] = "python", exclude: AbstractSet[str] = frozenset()
    ) -> dict[str, object]:
        """Return the record as plain values; with "json", such as JSON has. exclude: fields that are left out."""
        return cast("dict[str, object]", _adapter(type(self)).dump_python(self, mode=mode, exclude=set(exclude)))

    def model_dump_json(self) -> str:
        """Return the record as JSON, its fields in their order."""
        return self.encoded().decode()

    def encoded(self, *, exclude: AbstractSet[str] = frozenset()) -> bytes:
        """Return the record as JSON in UTF-8, its fields in their order. exclude: fields that are left out."""
        return _adapter(type(self)).serializer.to_json(self, exclude=set(exclude) or None)

    @classmethod
    def model_json_schema(cls, *, mode: JsonSchemaMode = "validation") -> dict[str, JsonValue]:
        """Return the JSON Schema of the record."""
        return _adapter(cls).json_schema(mode=mode)


class StateRecord(Record):
    """The body of a state fact, which its writer keeps as a record and a checkpoint restores.

    A service that needs derived fields or methods adds them in a subclass. A checkpoint is written while the record
    changes, so a snapshot holds `as_body`; a restored core holds `restored`, since other replicas may read the same
    fact.
    """

    __slots__ = ()

    @classmethod
    def restored(cls, body: "StateRecord", **own: object) -> Self:
        """Return a new record with the fields of a body. own: fields that only this class has; else their defaults."""
        return cls(**_values(body, type(body)), **own)

    def as_body(self, body: type[Body]) -> Body:
        """Return a copy of the fields of `body`, which is this class or a base of it."""
        return body(**_values(self, body))


class Listed:
    """Annotation of a record's dict that is a list in JSON, empty by default: `Annotated[dict[K, V], Listed(...)]`.

    by: where a value holds its key, as a dotted path; several make a tuple. None: the list holds pairs of key and
    value. most: maximum number of entries; None: no limit.
    """

    def __init__(self, *by: str, most: int | None = None) -> None:
        self._key = attrgetter(*by) if by else None
        self._most = most

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        key, value = get_args(source)
        entry = handler.generate_schema(value if self._key is not None else tuple[key, value])  # type: ignore[valid-type]
        entries = core_schema.tuple_variable_schema(entry, max_length=self._most)
        listed = core_schema.plain_serializer_function_ser_schema(self._listed, return_schema=entries)
        return core_schema.no_info_after_validator_function(self._keyed, entries, serialization=listed)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema) | {"default": []}

    def _keyed(self, entries: tuple[object, ...]) -> dict[object, object]:
        if self._key is None:
            return dict(cast("tuple[tuple[object, object], ...]", entries))
        return {self._key(entry): entry for entry in entries}

    def _listed(self, known: Mapping[object, object]) -> tuple[object, ...]:
        return tuple(known.items() if self._key is None else known.values())


FactBody = Payload | StateRecord
"""Body of a fact. Records are the bodies of state facts, which only checkpoints hold."""
Document = Wire | Record
"""One JSON object on the bus and over HTTP."""

_adapters: dict[type[Record], TypeAdapter[Record]] = {}
_names: dict[type[Record], tuple[str, ...]] = {}


def field_names(record: type[Record]) -> tuple[str, ...]:
    """Return the names of a record's fields, in their order."""
    names = _names.get(record)
    if names is None:
        assert dataclasses.is_dataclass(record), f"{record.__name__} is a dataclass"
        names = _names[record] = tuple(field.name for field in dataclasses.fields(record))
    return names


def _adapter(record: type[Record]) -> TypeAdapter[Record]:
    found = _adapters.get(record)
    if found is None:
        found = _adapters[record] = TypeAdapter(record)
    return found


def _values(record: StateRecord, body: type[StateRecord]) -> dict[str, object]:
    return {name: _copied(getattr(record, name)) for name in field_names(body)}


def _copied(value: object) -> object:
    """Return a copy of a dict, the only mutable value; other values are shared."""
    return dict(value) if isinstance(value, dict) else value
