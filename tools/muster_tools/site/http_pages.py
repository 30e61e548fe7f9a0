"""The HTTP API as a page, from its OpenAPI document: every operation, every body. Pure."""

from collections.abc import Iterator, Mapping
from typing import cast

from pydantic import JsonValue

from muster_tools.site.asyncapi_pages import Document
from muster_tools.site.markdown import code, paragraphs, prose, schema_words, table

HEAD = """# The HTTP API

Send `Authorization: Bearer TOKEN`. Refusals are problem documents (RFC 9457) that name the field. A running gateway
shows the same at `/docs`, and the OpenAPI document at `/openapi.json`; [here it is as a file](openapi.json).
"""


def page(document: Document) -> str:
    """One page: the operations, then the bodies that they speak of."""
    parts = [HEAD]
    for path, methods in _section(document, "paths").items():
        for method, operation in cast("Document", methods).items():
            parts.append(_operation(f"{method.upper()} {path}", cast("Document", operation)))
    parts.append("# Bodies\n")
    for name, schema in sorted(_section(_section(document, "components"), "schemas").items()):
        parts.append(_body(name, cast("Document", schema)))
    return "\n".join(parts)


def _operation(title: str, operation: Document) -> str:
    summary = prose(_text(operation, "summary"))
    parts = [f"## {title}\n\n{paragraphs(_text(operation, 'description')) or summary}\n"]
    rows = [*_parameters(operation), *_body_rows(operation)]
    if rows:
        parts.append(table(("parameter", "in", "type", ""), rows))
    parts.append(table(("status", "", "body"), _answers(operation)))
    return "\n".join(parts)


def _parameters(operation: Document) -> Iterator[tuple[str, ...]]:
    for one in cast("list[Document]", operation.get("parameters", [])):
        words = schema_words(_section(one, "schema"))
        yield code(_text(one, "name")), _text(one, "in"), words, prose(_text(one, "description"))


def _body_rows(operation: Document) -> Iterator[tuple[str, ...]]:
    body = _section(operation, "requestBody")
    if body:
        yield "body", "body", _content(body), prose(_text(body, "description"))


def _answers(operation: Document) -> Iterator[tuple[str, ...]]:
    for status, answer in sorted(_section(operation, "responses").items()):
        described = cast("Document", answer)
        yield status, prose(_text(described, "description")), _content(described)


def _content(described: Document) -> str:
    """Return the content of a body, by media type; the type is named if it is not JSON."""
    said = []
    for media, form in _section(described, "content").items():
        schema = _section(cast("Document", form), "schema")
        words = _inline(schema)
        said.append(words if media.endswith("json") else code(media))
    return ", ".join(said)


def _inline(schema: Document) -> str:
    """Return a schema in words; a schema with a few fields of its own is written out."""
    fields = _section(schema, "properties")
    if not fields:
        return schema_words(schema)
    return ", ".join(f"`{name}`: {schema_words(cast('Document', field))}" for name, field in fields.items())


def _body(name: str, schema: Document) -> str:
    parts = [f"## {name}\n\n{paragraphs(_text(schema, 'description'))}\n"]
    if "properties" in schema:
        parts.append(table(("field", "type", "default"), _fields(schema)))
    else:
        parts.append(f"{schema_words(schema)}\n")
    return "\n".join(parts)


def _fields(schema: Document) -> Iterator[tuple[str, ...]]:
    required = cast("list[str]", schema.get("required", []))
    for name, field in _section(schema, "properties").items():
        described = cast("Document", field)
        default = "needed" if name in required else code(_json(described.get("default")))
        yield code(name), schema_words(described), default


def _json(value: JsonValue) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')


def _section(parent: Document, name: str) -> Mapping[str, JsonValue]:
    found = parent.get(name, {})
    return found if isinstance(found, dict) else {}


def _text(parent: Document, name: str) -> str:
    found = parent.get(name, "")
    return found if isinstance(found, str) else ""
