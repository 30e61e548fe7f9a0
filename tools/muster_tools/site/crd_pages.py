"""The custom resource as a page: every field with its type, default and description, from its schema. Pure."""

import json
from collections.abc import Iterator
from typing import cast

from muster.kube.objects import JsonObject, mapping, sequence, text
from muster_tools.site.asyncapi_pages import Document, type_words
from muster_tools.site.markdown import code, paragraphs, prose, table

HEAD = """# Custom resources

Muster defines one custom resource, MusterJob (`musterjobs.muster.dev`, short `mj`). `muster kubernetes crd` prints its
definition. How objects become jobs: [jobs as objects of Kubernetes](../kubernetes-objects.md).

Fields in bold are required. `[]` stands for the items of a list, `.NAME` for the values of a map.
"""


def page(spec: JsonObject, status: JsonObject) -> str:
    """Return one page with a section for each of the two parts of the object."""
    parts = [HEAD]
    for title, schema in (("spec", spec), ("status", status)):
        described = paragraphs(text(schema, "description"))
        parts.append(f"## {title}\n\n{described}\n\n{table(('field', 'type', 'default', ''), fields(schema, title))}")
    return "\n".join(parts)


def fields(schema: JsonObject, path: str) -> Iterator[tuple[str, ...]]:
    """Yield a row for each field below an object of the schema. path: of the object."""
    required = sequence(schema, "required")
    for name in mapping(schema, "properties"):
        field = mapping(schema, "properties", name)
        shown = code(f"{path}.{name}")
        default = code(json.dumps(field["default"])) if "default" in field else ""
        kind = type_words(_as_json_schema(cast("Document", field)))
        yield f"**{shown}**" if name in required else shown, kind, default, prose(text(field, "description"))
        yield from fields(field, f"{path}.{name}")
        yield from fields(mapping(field, "items"), f"{path}.{name}[]")
        yield from fields(mapping(field, "additionalProperties"), f"{path}.{name}.NAME")


def _as_json_schema(schema: Document) -> Document:
    """Return the schema with its exclusive minimum as a number; in OpenAPI 3.0 a flag beside the minimum says so."""
    if schema.get("exclusiveMinimum") is not True:
        return schema
    return {key: value for key, value in schema.items() if key != "minimum"} | {"exclusiveMinimum": schema["minimum"]}
