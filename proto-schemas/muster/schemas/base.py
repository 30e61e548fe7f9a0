"""What all wire models share: frozen, tolerant readers of newer writers, bounded text."""

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

FACT_BYTES_MAX = 512 * 1024  # a fact's body; half of the broker's payload limit, so that headers never decide
BODY_BYTES_MAX = 1024 * 1024  # an HTTP request's body
JOBS_PER_BATCH_MAX = 1_000  # submitted in one request
CAUSES_MAX = 16  # a fact names at most so many facts that led to it

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


class Wire(BaseModel):
    """A model that crosses the bus. Readers ignore fields they do not know: facts only grow by optional fields."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Payload(Wire):
    """Body of a fact."""


Model = TypeVar("Model", bound=Wire)


def parse_request(model: type[Model], body: bytes | str) -> Model:
    """What a person or client sent, read strictly: there a field nobody knows is a mistake worth telling.

    Strictly in types, too: "8" and true are no numbers. Facts carry the same models and are read tolerantly, so the
    strictness is the edge's and not the model's.
    Raises pydantic.ValidationError, whose `errors()` name the field.
    """
    return model.model_validate_json(body, extra="forbid", strict=True)
