"""Facts only grow by optional fields: what counts as growth, and what needs a new fact name."""

from enum import StrEnum

import pytest
from pydantic import BaseModel, Field

from muster.schemas.export import breaks


class Colour(StrEnum):
    RED = "red"


class Part(BaseModel):
    size: int


class Old(BaseModel):
    name: str
    count: int = Field(default=1, ge=0)
    part: Part
    parts: tuple[Part, ...] = ()
    pair: tuple[int, str] = (0, "")
    colour: Colour = Colour.RED
    maybe: int | None = None


def changes(new: type[BaseModel], old: type[BaseModel] = Old) -> list[str]:
    found = breaks({"f": old.model_json_schema()}, {"f": new.model_json_schema()})
    return [f"{one.path}: {one.change}" for one in found]


def test_the_same_shape_is_compatible() -> None:
    assert changes(Old) == []


def test_a_new_optional_field_is_growth() -> None:
    class New(Old):
        extra: str = ""

    assert changes(New) == []


def test_new_words_of_explanation_change_nothing() -> None:
    class New(Old):
        """Told better."""

        name: str = Field(title="Name", description="who")

    assert changes(New) == []


def test_a_new_required_field_is_refused_because_stored_facts_lack_it() -> None:
    class New(Old):
        extra: str

    assert changes(New) == ["extra: new field is required; facts already stored do not have it"]


def test_a_removed_field_is_refused() -> None:
    class New(BaseModel):
        name: str
        part: Part
        parts: tuple[Part, ...] = ()
        pair: tuple[int, str] = (0, "")
        colour: Colour = Colour.RED
        maybe: int | None = None

    assert changes(New) == ["count: field removed"]


def test_a_required_field_may_not_become_optional_because_older_readers_need_it() -> None:
    class New(Old):
        name: str = "x"

    assert any("became optional" in change for change in changes(New))


@pytest.mark.parametrize("bound", [Field(default=1, ge=1), Field(default=1), Field(default=1, ge=0, le=9)])
def test_a_bound_may_neither_tighten_nor_loosen(bound: int) -> None:
    class New(Old):
        count: int = bound

    assert len(changes(New)) == 1


def test_another_default_means_another_thing_by_silence() -> None:
    class New(Old):
        count: int = Field(default=2, ge=0)

    assert changes(New) == ["count: default changed from 1 to 2"]


def test_a_new_word_in_a_vocabulary_is_refused_because_older_readers_know_it_not() -> None:
    class Colour(StrEnum):
        RED = "red"
        BLUE = "blue"

    class New(Old):
        colour: Colour = Colour.RED  # type: ignore[assignment]

    assert any(change.startswith("colour: ") for change in changes(New))


def test_changes_are_found_inside_nested_models_and_in_sequences() -> None:
    class Part(BaseModel):
        size: str

    class New(Old):
        parts: tuple[Part, ...] = ()  # type: ignore[assignment]

    assert changes(New) == ["parts[].size: type changed from 'integer' to 'string'"]


def test_places_in_a_pair_and_alternatives_are_compared_one_by_one() -> None:
    class New(Old):
        pair: tuple[int, int] = (0, "")  # type: ignore[assignment]
        maybe: str | None = None  # type: ignore[assignment]

    assert [change.split(":")[0] for change in changes(New)] == ["maybe<anyOf 0>", "pair<prefixItems 1>"]


def test_recursive_models_are_compared_in_finite_time() -> None:
    class Tree(BaseModel):
        children: tuple["Tree", ...] = ()

    assert changes(Tree, Tree) == []


def test_a_fact_that_is_gone_is_refused_because_logs_still_hold_it() -> None:
    found = breaks({"log.x.json": Old.model_json_schema()}, {})
    assert [str(one) for one in found] == ["log.x.json: body: the fact is gone, but logs still hold it"]


def test_another_writer_is_refused_because_readers_compare_it() -> None:
    old = {"x-muster-fact": {"writer": "agent"}}
    assert len(breaks({"f": old}, {"f": {"x-muster-fact": {"writer": "scheduler"}}})) == 1
