"""The dashboard's types are those of the models that it is sent."""

from enum import StrEnum
from typing import Annotated, Literal, get_type_hints

import pytest
from pydantic import Field

from muster.schemas.base import InstantNs, Wire
from muster_tools import dashboard_types
from muster_tools.dashboard_types import FILE, types_of


class Color(StrEnum):
    """Of a part."""

    RED = "red"
    BLUE = "dark-blue"


class Part(Wire):
    """Within the whole."""

    color: Color


class Whole(Wire):
    """Every sort of field that a model has."""

    at: InstantNs
    share: Annotated[float, Field(ge=0)]
    parts: Annotated[tuple[Part, ...], Field(max_length=3)]
    pairs: tuple[tuple[str, int], ...]
    maybe: tuple[Part | None, ...]
    counts: dict[str, dict[str, int]]
    says: Literal["yes", "no"] | None = None


def test_the_committed_types_are_those_of_the_models() -> None:
    assert FILE.read_text(encoding="utf-8") == types_of(dashboard_types.MODELS), (
        "a model changed: run `python -m muster_tools.dashboard_types`"
    )


def test_a_model_is_written_with_what_it_is_made_of() -> None:
    color, part, whole = types_of((Whole,)).split("\n\n")[2:]
    assert color == 'export type Color = "red" | "dark-blue";'
    assert part == "export interface Part {\n  color: Color;\n}"
    assert whole.splitlines()[1:-1] == [
        "  at: InstantNs;",
        "  share: number;",
        "  parts: Part[];",
        "  pairs: [string, number][];",
        "  maybe: (Part | null)[];",
        "  counts: Record<string, Record<string, number>>;",
        '  says: "yes" | "no" | null;',
    ]


def test_a_field_that_typescript_has_no_type_for_is_refused() -> None:
    class Strange(Wire):
        """One field that cannot be written."""

        body: bytes

    assert get_type_hints(Strange)["body"] is bytes
    with pytest.raises(TypeError, match="bytes"):
        types_of((Strange,))
