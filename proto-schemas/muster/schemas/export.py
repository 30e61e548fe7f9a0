"""JSON Schemas of all facts, as documents to commit: one per row of the table of facts, the same bytes every time."""

import json
from collections.abc import Mapping

from pydantic import JsonValue

from muster.schemas.registry import ANY_SERVICE, STATE_TABLE, TABLE, FactType

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FACT_KEY = "x-muster-fact"  # which row of the table a document describes

Schema = dict[str, JsonValue]


def file_name(row: FactType) -> str:
    """`<stream>.<writer>.<kind>.<name>.json`; `any` where every service may write the fact."""
    writer = "any" if row.writer == ANY_SERVICE else row.writer
    return f"{row.stream.value}.{writer}.{row.kind}.{row.name}.json"


def fact_schema(row: FactType) -> Schema:
    """JSON Schema of one fact's body as its readers accept it, with the row of the table beside it."""
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
    """Every fact's schema by file name, state facts included, ordered by name."""
    rows = sorted((*TABLE, *STATE_TABLE), key=file_name)
    schemas = {file_name(row): fact_schema(row) for row in rows}
    assert len(schemas) == len(rows), "two rows of the table of facts would share a file"
    return schemas


def render(document: Mapping[str, JsonValue]) -> str:
    """A document as text: sorted keys and a final newline, so that a difference is a change."""
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
