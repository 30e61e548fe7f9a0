"""Records that services keep, which are the bodies of their state facts: one class for both."""

import dataclasses
from typing import ClassVar, Self, TypeVar, cast

from pydantic import ConfigDict, JsonValue, TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from muster.schemas.base import Payload

Body = TypeVar("Body", bound="StateRecord")


class StateRecord:
    """A record that its writer keeps, and the body of the state fact from which a checkpoint restores it.

    Subclasses are dataclasses with slots, so that a core changes them in place. A service that needs derived fields or
    methods adds them in a subclass of its own. A checkpoint is written while the record changes, so a snapshot holds
    `as_body`; a restored core holds `restored`, since other replicas may read the same fact.
    """

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="ignore",  # newer writers may have added fields
        use_attribute_docstrings=True,
    )

    @classmethod
    def restored(cls, body: "StateRecord", **own: object) -> Self:
        """Return a new record with the fields of a body. own: fields that only this class has; else their defaults."""
        return cls(**_values(body, type(body)), **own)

    def as_body(self, body: type[Body]) -> Body:
        """Return a copy of the fields of `body`, which is this class or a base of it."""
        return body(**_values(self, body))

    @classmethod
    def model_validate(cls, value: object) -> Self:
        """Read a record from plain values. Raises pydantic.ValidationError."""
        return cast("Self", _adapter(cls).validate_python(value))

    @classmethod
    def model_validate_json(cls, body: bytes | str) -> Self:
        """Read a record from JSON. Raises pydantic.ValidationError."""
        return cast("Self", _adapter(cls).validate_json(body))

    def model_dump_json(self) -> str:
        """Return the record as JSON, its fields in their order."""
        return _adapter(type(self)).dump_json(self).decode()

    @classmethod
    def model_json_schema(cls, *, mode: JsonSchemaMode = "validation") -> dict[str, JsonValue]:
        """Return the JSON Schema of the record."""
        return _adapter(cls).json_schema(mode=mode)


FactBody = Payload | StateRecord
"""What a fact says. Records are the bodies of state facts, which stand in checkpoints alone."""

_adapters: dict[type[StateRecord], TypeAdapter[StateRecord]] = {}
_names: dict[type[StateRecord], tuple[str, ...]] = {}


def _adapter(record: type[StateRecord]) -> TypeAdapter[StateRecord]:
    found = _adapters.get(record)
    if found is None:
        found = _adapters[record] = TypeAdapter(record)
    return found


def _values(record: StateRecord, body: type[StateRecord]) -> dict[str, object]:
    names = _names.get(body)
    if names is None:
        assert dataclasses.is_dataclass(body), f"{body.__name__} is a dataclass"
        names = _names[body] = tuple(field.name for field in dataclasses.fields(body))
    return {name: getattr(record, name) for name in names}
