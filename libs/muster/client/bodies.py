"""What requests carry and answers mean, in one place for all methods."""

import json
import os
from typing import TypeVar, cast

from pydantic import BaseModel

from muster.schemas.record import Document

View = TypeVar("View", bound=Document)


def own_key() -> dict[str, str]:
    """One call is one request, however often it is tried."""
    return {"Idempotency-Key": os.urandom(16).hex()}


def done(model: type[View], body: bytes) -> View | None:
    """What stands now; None for an answer that only says what was asked for: no cluster has it yet."""
    return cast("View", model.model_validate_json(body)) if "cluster" in json.loads(body) else None


def sent(model: BaseModel) -> bytes:
    """The body of a request: only what was said, so that the other side's defaults hold for the rest."""
    return model.model_dump_json(exclude_unset=True).encode()
