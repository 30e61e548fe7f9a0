"""The AsyncAPI documents as pages: everything is on them, and every link leads somewhere."""

import re
from pathlib import Path

import pytest
import yaml

from muster_tools.site.asyncapi_pages import BODIES, INDEX, SOURCES, contents, pages, read, type_words

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return read(ROOT / SOURCES)


@pytest.fixture(scope="module")
def made(texts: dict[str, str]) -> dict[str, str]:
    return contents(texts)


def test_every_service_has_a_page_with_every_subject_of_its_document(
    texts: dict[str, str], made: dict[str, str]
) -> None:
    for service, text in texts.items():
        channels = yaml.load(text, Loader=yaml.CSafeLoader)["channels"]
        addresses = {channel["address"] for channel in channels.values()} - {None}
        assert addresses == set(re.findall(r"^\| `([^`]+)` \|", made[f"{service}.md"], re.MULTILINE))
        assert f"[{service}]({service}.md)" in made[INDEX]


def test_every_link_to_a_body_finds_it(made: dict[str, str]) -> None:
    anchors = {heading.lower() for heading in re.findall(r"^## (\w+)$", made[BODIES], re.MULTILINE)}
    linked = {anchor for text in made.values() for anchor in re.findall(rf"{BODIES}#(\w+)\)", text)}
    assert linked <= anchors
    assert {"jobplaced", "scalechosen"} <= linked


def test_a_body_shows_its_fields_with_types_and_defaults(made: dict[str, str]) -> None:
    assert f"| `slots` | list of [Slot]({BODIES}#slot) |  |" in made[BODIES]
    assert "| `slice_s` | number | `0.0` |" in made[BODIES]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 0, "maximum": 9}, "integer (≥ 0, ≤ 9)"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or null"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map to integer"),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]}, "(string, number)"),
        ({"enum": ["a", "b"]}, "`a`, `b`"),
        ({}, "any"),
    ],
)
def test_types_are_said_in_words(schema: dict[str, object], words: str) -> None:
    assert type_words(schema) == words  # type: ignore[arg-type]


def test_one_body_is_never_shown_for_two_that_differ() -> None:
    def of(kind: str) -> dict[str, object]:
        return {"components": {"schemas": {"Slot": {"type": kind}}}}

    with pytest.raises(ValueError, match="body Slot differs"):
        pages({"a": of("object"), "b": of("string")})  # type: ignore[dict-item]
