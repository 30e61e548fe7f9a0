"""JSON Schemas of all facts, as committed documents, and the check that a newer one is compatible.

One document per row of the table of facts, with reproducible bytes. Facts only grow by optional fields.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from muster.schemas.registry import ANY_SERVICE, STATE_TABLE, TABLE, FactType

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FACT_KEY = "x-muster-fact"  # which row of the table a document describes
HINT = "a breaking change is a new fact name: give the new shape a new row in muster.schemas.registry"
_DESCRIPTIVE = frozenset({"title", "description", "examples", "deprecated", "$defs", "$schema"})
_ALTERNATIVES = ("prefixItems", "anyOf", "oneOf", "allOf")
_STRUCTURE = frozenset({"properties", "required", "items", "additionalProperties", *_ALTERNATIVES})
_ABSENT = "<absent>"


Schema = dict[str, JsonValue]


def file_name(row: FactType) -> str:
    """Return `<stream>.<writer>.<kind>.<name>.json`; `any` if every service may write the fact."""
    writer = "any" if row.writer == ANY_SERVICE else row.writer
    return f"{row.stream.value}.{writer}.{row.kind}.{row.name}.json"


def fact_schema(row: FactType) -> Schema:
    """Return the JSON Schema of one fact's body as its readers accept it, with the row of the table."""
    body: Schema = row.payload.model_json_schema(mode="validation")
    fact: Schema = {
        "stream": row.stream.value,
        "writer": row.writer,
        "kind": row.kind,
        "name": row.name,
        "ceType": row.ce_type,
    }
    return {"$schema": DIALECT, FACT_KEY: fact, **body}


def fact_schemas() -> dict[str, Schema]:
    """Return every fact's schema by file name, including state facts, ordered by name."""
    rows = sorted((*TABLE, *STATE_TABLE), key=file_name)
    schemas = {file_name(row): fact_schema(row) for row in rows}
    assert len(schemas) == len(rows), "two rows of the table of facts would share a file"
    return schemas


def render(document: Mapping[str, JsonValue]) -> str:
    """Return a document as text: sorted keys and a final newline, so that a difference is a change."""
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


@dataclass(frozen=True, slots=True)
class Break:
    """One incompatible change. file: of the schema; path: where in the body, "" for the body itself."""

    file: str
    path: str
    change: str

    def __str__(self) -> str:
        """Return the change as one line of text."""
        return f"{self.file}: {self.path or 'body'}: {self.change}"


def breaks(old: Mapping[str, Schema], new: Mapping[str, Schema]) -> tuple[Break, ...]:
    """Return every incompatible change from the `old` set of schemas (by file name) to the `new`; new files are none.

    Old facts stay in logs and are read by newer services, and older services read what newer ones write. So a
    constraint may neither tighten (stored facts would no longer parse) nor loosen (older readers would send new facts
    to DEAD), and a default may not change (it is what an absent field means).
    """
    found: list[Break] = []
    for file, before in old.items():
        after = new.get(file)
        if after is None:
            found.append(Break(file, "", "the fact is gone, but logs still hold it"))
            continue
        if before.get(FACT_KEY) != after.get(FACT_KEY):
            found.append(Break(file, "", f"its row changed from {before.get(FACT_KEY)} to {after.get(FACT_KEY)}"))
        found.extend(Break(file, path, change) for path, change in _Comparison(before, after).changes())
    return tuple(found)


class _Comparison:
    """Compares two schemas recursively. Recursive definitions end at a pair of references already under way."""

    def __init__(self, old: Schema, new: Schema) -> None:
        self._old = old
        self._new = new
        self._seen: set[tuple[str, str]] = set()

    def changes(self) -> Iterator[tuple[str, str]]:
        yield from self._compare(self._old, self._new, "")

    def _compare(self, old: JsonValue, new: JsonValue, path: str) -> Iterator[tuple[str, str]]:
        if not isinstance(old, dict) or not isinstance(new, dict):
            if old != new:
                yield path, f"changed from {old!r} to {new!r}"
            return
        before, after = _resolved(old, self._old), _resolved(new, self._new)
        yield from _keyword_changes(before, after, path)
        references = (str(old.get("$ref", "")), str(new.get("$ref", "")))
        if any(references):
            if references in self._seen:
                return
            self._seen.add(references)
        yield from self._properties(before, after, path)
        yield from self._nested(before, after, path)

    def _properties(self, old: Schema, new: Schema, path: str) -> Iterator[tuple[str, str]]:
        old_fields, new_fields = _mapping(old.get("properties")), _mapping(new.get("properties"))
        old_required, new_required = _names(old.get("required")), _names(new.get("required"))
        for name in sorted(old_fields.keys() | new_fields.keys()):
            where = f"{path}.{name}" if path else name
            if name not in new_fields:
                yield where, "field removed"
            elif name not in old_fields:
                if name in new_required:
                    yield where, "new field is required; facts already stored do not have it"
            else:
                if (name in old_required) != (name in new_required):
                    yield where, "became required" if name in new_required else "became optional; older readers need it"
                yield from self._compare(old_fields[name], new_fields[name], where)

    def _nested(self, old: Schema, new: Schema, path: str) -> Iterator[tuple[str, str]]:
        for keyword, suffix in (("items", "[]"), ("additionalProperties", "{}")):
            if keyword in old or keyword in new:
                yield from self._compare(old.get(keyword, _ABSENT), new.get(keyword, _ABSENT), path + suffix)
        for keyword in _ALTERNATIVES:
            before, after = _sequence(old.get(keyword)), _sequence(new.get(keyword))
            if len(before) != len(after):
                yield path, f"{keyword} has {len(after)} alternatives instead of {len(before)}"
                continue
            for index, (one, other) in enumerate(zip(before, after, strict=True)):
                yield from self._compare(one, other, f"{path}<{keyword} {index}>")


def _keyword_changes(old: Schema, new: Schema, path: str) -> Iterator[tuple[str, str]]:
    plain = {key for key in (*old, *new) if key not in _DESCRIPTIVE | _STRUCTURE | {FACT_KEY}}
    for keyword in sorted(plain):
        before, after = old.get(keyword, _ABSENT), new.get(keyword, _ABSENT)
        if before != after:
            yield path, f"{keyword} changed from {before!r} to {after!r}"


def _resolved(schema: Schema, root: Schema) -> Schema:
    """Return the schema with its `$ref` (always into `$defs`, as pydantic writes them) replaced by the definition."""
    reference = schema.get("$ref")
    if reference is None:
        return schema
    definition = _mapping(root.get("$defs")).get(str(reference).rsplit("/", 1)[-1])
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    return {**_mapping(definition), **beside}


def _mapping(value: JsonValue) -> Schema:
    return value if isinstance(value, dict) else {}


def _names(value: JsonValue) -> frozenset[str]:
    return frozenset(str(name) for name in value) if isinstance(value, list) else frozenset()


def _sequence(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
