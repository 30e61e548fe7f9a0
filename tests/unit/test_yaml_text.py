"""YAML text is read within bounds, and as PyYAML would read it where it is harmless."""

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.core.yaml_text import YamlLimits, YamlTextError, yaml_value, yaml_values

LIMITS = YamlLimits(characters=100_000, aliased=1_000, depth=32)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_a_value_comes_back(value: object) -> None:
    assert yaml_value(yaml.safe_dump(value), LIMITS) == value


@pytest.mark.parametrize(
    "text",
    [
        "a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}\n",
        "- 2026-01-01\n- 0x1F\n- yes\n- ~\n- 1.5e3\n- !!str 5\n- |\n  a\n  b\n",
        "--- 1\n--- [2]\n---\n",
    ],
)
def test_harmless_text_reads_as_pyyaml_reads_it(text: str) -> None:
    assert yaml_values(text, LIMITS) == list(yaml.safe_load_all(text))


def nested(levels: int, merged: bool = False) -> str:
    many = "{<<: [%s]}" if merged else "[%s]"
    first = "x0: &x0 {k: v}\n"
    return first + "".join(f"x{n}: &x{n} {many % ','.join([f'*x{n - 1}'] * 10)}\n" for n in range(1, levels))


REFUSED = {
    "a bomb of aliases": (nested(10), "aliases stand for more than 1000 values"),
    "a bomb of merge keys": (nested(10, merged=True), "aliases stand for more than 1000 values"),
    "a list in a list": ("[" * 90_000, "nested deeper than 32 levels"),
    "a mapping in a mapping": ("{a: " * 1_000, "nested deeper than 32 levels"),
    "itself": ("&a [*a]", "refers to itself"),
    "an anchor that is not there": ("[*a]", "undefined|no anchor"),
    "a key twice": ("a: 1\nb: 2\na: 3\n", "^a: the key 'a' is written twice; keep one \\(line 3\\)"),
    "a long text": (" " * 100_001, "at most 100000 are read"),
    "an object": ("!!python/object/apply:os.system [true]", "cannot be read"),
    "a day that no month has": ("2026-02-31", "cannot be read"),
    "a bad byte": ("a: \x07", "neither YAML nor JSON"),
    "no end": ("a: [", "neither YAML nor JSON"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_text_beyond_the_bounds_is_refused(what: str) -> None:
    text, problem = REFUSED[what]
    with pytest.raises(YamlTextError, match=problem):
        yaml_values(text, LIMITS)


def test_one_document_is_one() -> None:
    with pytest.raises(YamlTextError, match="a second of 2 documents"):
        yaml_value("--- 1\n--- 2\n", LIMITS)
    assert yaml_value("", LIMITS) is None


OWN_FILES = {"asyncapi_pages.py", "old_stack.py"}
"""Modules that read YAML which comes with Muster."""


def test_nothing_else_reads_yaml_of_others() -> None:
    unbounded = re.compile(r"yaml\.(safe_load|load|full_load|unsafe_load|compose)(_all)?\(")
    root = Path(__file__).parents[2]
    packages = ("libs/muster", "services/muster", "tools/muster_tools")
    sources = (path for package in packages for path in (root / package).rglob("*.py"))
    assert {path.name for path in sources if unbounded.search(path.read_text())} == OWN_FILES
