"""Base of all wire models: frozen, tolerant readers of newer writers, bounded text."""

import json
from typing import Annotated, NewType, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

FACT_BYTES_MAX = 512 * 1024  # a fact's body; half of the broker's payload limit, so that headers always fit
BODY_BYTES_MAX = 1024 * 1024  # an HTTP request's body
JOBS_PER_BATCH_MAX = 1_000  # jobs submitted in one request
CAUSES_MAX = 16  # maximum number of causes of a fact

NAME_PATTERN = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"  # RFC 1123 label: also a Kubernetes name and a subject token

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
"""A team, queue, cluster or task group: lower-case letters, digits and hyphens, at most 63."""
TEXT_CHARS_MAX = 1024
Text = Annotated[str, StringConstraints(max_length=TEXT_CHARS_MAX)]
LABEL_CHARS_MAX = 253
Label = Annotated[str, StringConstraints(min_length=1, max_length=LABEL_CHARS_MAX)]
JobId = Annotated[str, StringConstraints(pattern=r"^[A-Z2-7]{26}$")]
"""130 bits of a SHA-256 in base 32 (RFC 4648 alphabet)."""
InstantNs = Annotated[int, Field(ge=0)]
"""Nanoseconds since the Unix epoch, stamped by the broker."""
Instant = NewType("Instant", int)
"""Nanoseconds since the Unix epoch. Whole numbers, so that replays compare equal to the last bit."""
NEVER = Instant(0)
RecordedInstant = Annotated[Instant, Field(ge=0)]
"""An `InstantNs` of a record, with which its core computes."""


class Wire(BaseModel):
    """A model that crosses the bus. Readers ignore unknown fields, as facts grow by optional fields only. Validators
    are built at first use: no process uses the whole contract, and building it took a third of its import."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class Kept(Wire):
    """A wire model that services keep as long as what it describes is there.

    pydantic notes in a set which fields a model was given: more than half of the memory of a decoded job. Models
    given the same fields share one set; nothing changes it, since the models are frozen.
    """

    def model_post_init(self, _context: object, /) -> None:
        """Share the set of the fields that were given."""
        given = self.model_fields_set
        fields = frozenset(given)
        shared = _GIVEN.get(fields)
        if shared is not None:
            object.__setattr__(self, "__pydantic_fields_set__", shared)
        elif len(_GIVEN) < GIVEN_MAX:
            _GIVEN[fields] = given

    def __deepcopy__(self, memo: dict[int, object] | None = None) -> Self:
        """Return the model itself, since it is frozen: pydantic copies the default of a field for every model."""
        return self


GIVEN_MAX = 1_024  # sets that are shared: clients may give the fields in any combination
_GIVEN: dict[frozenset[str], set[str]] = {}


class Payload(Wire):
    """Body of a fact."""


Model = TypeVar("Model", bound=Wire)


def parse_request(model: type[Model], body: bytes | str) -> Model:
    """Parse a request of a user or client strictly: an unknown field or a wrong type is an error.

    "8" and true are not numbers. Facts carry the same models and are read tolerantly, so strictness is applied here and
    not by the model. A duplicate key is refused, too.

    Raises pydantic.ValidationError, whose `errors()` name the field.
    """
    parsed = model.model_validate_json(body, extra="forbid", strict=True)
    _KEYS.decode(body if isinstance(body, str) else body.decode())
    return parsed


def _refuse_twice(pairs: list[tuple[str, object]]) -> None:
    """Refuse an object with a duplicate key: readers differ in which value they use.

    Raises pydantic.ValidationError.
    """
    if len(dict(pairs)) == len(pairs):
        return
    keys = [key for key, _ in pairs]
    twice = next(key for place, key in enumerate(keys) if key in keys[:place])
    error = PydanticCustomError("duplicate_key", "the key is given more than once")
    raise ValidationError.from_exception_data("JSON", [InitErrorDetails(type=error, loc=(twice,), input=twice)])


def _unread(_: str) -> None:
    """Skip a number: only the keys matter."""


_KEYS = json.JSONDecoder(object_pairs_hook=_refuse_twice, parse_int=_unread, parse_float=_unread, strict=False)
