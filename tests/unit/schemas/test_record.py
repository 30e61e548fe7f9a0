"""A record is the body of its state fact: restored without sharing, and written without what a service derives."""

from dataclasses import dataclass, field
from typing import Annotated

import pytest
from pydantic import Field, ValidationError

from muster.schemas.base import Wire
from muster.schemas.record import Listed, StateRecord


@dataclass(slots=True)
class CupState(StateRecord):
    name: str
    size: Annotated[int, Field(ge=0)] = 0
    """In milliliters."""


@dataclass(slots=True, kw_only=True)
class Cup(CupState):
    shelf: str = ""
    label: str = field(init=False)

    def __post_init__(self) -> None:
        self.label = f"{self.name}/{self.size}"


def test_a_restored_record_has_the_fields_of_the_body_and_its_own() -> None:
    body = CupState("blue", 3)
    cup = Cup.restored(body, shelf="low")
    cup.size = 4
    assert (cup.name, cup.shelf, cup.label) == ("blue", "low", "blue/3")
    assert body.size == 3, "whoever else reads the same fact"


def test_a_body_has_no_fields_that_a_service_derives_and_does_not_change_any_more() -> None:
    cup = Cup("blue", 3, shelf="low")
    body = cup.as_body(CupState)
    cup.size = 4
    assert body.model_dump_json() == '{"name":"blue","size":3}'


def test_a_record_is_read_as_any_fact_tolerant_of_newer_fields_and_strict_in_its_own() -> None:
    assert CupState.model_validate_json('{"name":"blue","handle":true}') == CupState("blue")
    assert CupState.model_validate({"name": "blue", "size": 2}) == CupState("blue", 2)
    with pytest.raises(ValidationError, match="size"):
        CupState.model_validate_json('{"name":"blue","size":-1}')


def test_its_fields_are_documented_beside_them() -> None:
    schema = CupState.model_json_schema()
    assert schema["required"] == ["name"]
    assert "In milliliters." in str(schema)


class Spoon(Wire):
    maker: str
    number: int


@dataclass(slots=True)
class DrawerState(StateRecord):
    spoons: Annotated[dict[tuple[str, int], Spoon], Listed("maker", "number", most=2)] = field(default_factory=dict)
    lent: Annotated[dict[str, str], Listed()] = field(default_factory=dict)


DRAWER = '{"spoons":[{"maker":"a","number":2},{"maker":"a","number":1}],"lent":[["fork","bob"]]}'


def test_what_a_record_looks_up_by_key_is_a_list_in_json_in_its_order() -> None:
    drawer = DrawerState.model_validate_json(DRAWER)
    assert drawer.spoons == {("a", 2): Spoon(maker="a", number=2), ("a", 1): Spoon(maker="a", number=1)}
    assert drawer.lent == {"fork": "bob"}
    assert drawer.model_dump_json() == DRAWER


def test_a_body_and_a_restored_record_have_dicts_of_their_own() -> None:
    drawer = DrawerState.model_validate_json(DRAWER)
    body, restored = drawer.as_body(DrawerState), DrawerState.restored(drawer)
    drawer.spoons.clear()
    assert len(body.spoons) == len(restored.spoons) == 2


def test_the_schema_of_a_listed_dict_is_that_of_a_list_which_may_be_left_out() -> None:
    spoons = DrawerState.model_json_schema()["properties"]["spoons"]  # type: ignore[index, call-overload]
    assert spoons == {
        "default": [],
        "items": {"$ref": "#/$defs/Spoon"},
        "maxItems": 2,
        "title": "Spoons",
        "type": "array",
    }
    assert DrawerState.model_json_schema(mode="serialization") == DrawerState.model_json_schema()
    with pytest.raises(ValidationError, match="at most 2"):
        DrawerState.model_validate({"spoons": [Spoon(maker="a", number=number) for number in range(3)]})
