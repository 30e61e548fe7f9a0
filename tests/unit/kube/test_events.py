"""Events are read as they are, but for who set which field."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from muster.kube.reflector import parsed

NASTY = [',"managedFields":[{', '}],"', "}]}", '{"a":[{"b":1}],"c":2}', "\\", '"', "}],", "ü"]
TEXTS = st.one_of(st.text(max_size=8), st.sampled_from(NASTY), st.lists(st.sampled_from(NASTY)).map("".join))
SETS: st.SearchStrategy[JsonValue] = st.recursive(
    st.just({}), lambda below: st.dictionaries(TEXTS.map(lambda name: f"f:{name}"), below, max_size=3), max_leaves=6
)
ENTRIES = st.lists(
    st.fixed_dictionaries({"manager": TEXTS, "fieldsV1": SETS}, optional={"subresource": TEXTS}), max_size=3
)
TREES = st.recursive(
    TEXTS | st.none() | st.integers(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(TEXTS, below, max_size=3),
    max_leaves=8,
)


def line(obj: JsonValue) -> bytes:
    """As servers write it: no spaces."""
    return json.dumps({"type": "MODIFIED", "object": obj}, separators=(",", ":"), ensure_ascii=False).encode()


@given(
    before=st.dictionaries(TEXTS, TREES, min_size=1, max_size=3),
    entries=ENTRIES,
    after=st.dictionaries(TEXTS, TREES, max_size=3),
    rest=st.dictionaries(TEXTS, TREES, max_size=3),
)
def test_all_but_the_managers_of_fields_is_read(
    before: dict[str, JsonValue], entries: list[JsonValue], after: dict[str, JsonValue], rest: dict[str, JsonValue]
) -> None:
    metadata = {**before, "managedFields": entries, **after}
    found = parsed(line({"metadata": metadata, **rest}))
    assert isinstance(found, dict)
    kept = found["object"].pop("metadata")
    kept.pop("managedFields", None)
    metadata.pop("managedFields")
    assert kept == metadata
    assert found == {"type": "MODIFIED", "object": {key: value for key, value in rest.items() if key != "metadata"}}


def test_managers_are_not_read_wherever_the_server_writes_them() -> None:
    entries: list[JsonValue] = [{"manager": "x", "fieldsV1": {"f:spec": {'k:{"name":"main"}': {".": {}}}}}]
    last: JsonValue = {"metadata": {"name": "a", "managedFields": entries}, "spec": {}}  # of kinds with a Go type
    sorted_: JsonValue = {"metadata": {"labels": {}, "managedFields": entries, "name": "a"}, "spec": {}}  # of others
    alone: JsonValue = {"metadata": {"name": "a", "managedFields": entries}}
    for obj in (last, sorted_, alone):
        assert "managedFields" not in str(parsed(line(obj)))


@pytest.mark.parametrize("broken", [b"", b"{", b'{"a":{"b":1,"managedFields":[{"c":1}]', b'{"a":1,"managedFields":['])
def test_what_is_no_json_is_an_error(broken: bytes) -> None:
    with pytest.raises(ValueError, match=r"EOF|expected"):
        parsed(broken)
