"""Every setting as a page: name, type, default and what its section's docstring or its own says of it. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import cast

from pydantic import BaseModel, JsonValue

from muster_tools.site.asyncapi_pages import Document
from muster_tools.site.markdown import code, documented, paragraphs, prose, schema_words, table

HEAD = """# Settings

`<state-dir>/settings.json` holds them; `MUSTER_<SECTION>__<FIELD>` in the environment goes before it, a field at the
top is `MUSTER_<FIELD>`. Services read them when they start. Unknown fields are refused.
"""


def page(root: type[BaseModel]) -> str:
    """Return the page: the fields of the root, then each section under its name in the file."""
    schemas = _schemas(root)
    parts = [HEAD]
    for path, model in sections(root):
        said, told = documented(model.__doc__ or "", model.model_fields)
        parts.append(f"## {path or 'At the top'}\n\n{paragraphs(said)}\n")
        parts.append(table(("field", "type", "default", ""), _rows(model, schemas[model.__name__], told)))
    return "\n".join(parts)


def sections(root: type[BaseModel]) -> list[tuple[str, type[BaseModel]]]:
    """Return every model below the root in the order of the fields, by its path: `fabrics[].simulated`."""
    found: list[tuple[str, type[BaseModel]]] = [("", root)]
    for path, model in found:  # grows while it is walked
        for name, field in model.model_fields.items():
            for below, suffix in _models(field.annotation):
                found.append((f"{path}.{name}{suffix}".lstrip("."), below))
    return found


def _schemas(root: type[BaseModel]) -> Mapping[str, Document]:
    whole = cast("dict[str, JsonValue]", root.model_json_schema())
    return {root.__name__: whole, **cast("dict[str, Document]", whole.get("$defs", {}))}


def _models(annotation: object) -> Iterator[tuple[type[BaseModel], str]]:
    """Models that an annotation speaks of, with how one of them is reached: itself, in a list, or in a map."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, ""
        return
    origin = getattr(annotation, "__origin__", None)
    suffix = "[]" if origin is tuple else ".NAME" if origin is dict else ""
    for inner in getattr(annotation, "__args__", ()):
        for model, below in _models(inner):
            yield model, suffix + below


def _beside(model: type[BaseModel], name: str) -> str:
    """Return what the docstring beside a field says, in the model or in the one that it inherits the field from."""
    sections = [base for base in model.__mro__ if issubclass(base, BaseModel) and name in base.model_fields]
    return next((text for section in sections if (text := section.model_fields[name].description)), "")


def _rows(model: type[BaseModel], schema: Document, told: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    fields = cast("Mapping[str, Document]", schema["properties"])
    for name, field in model.model_fields.items():
        default = "needed" if field.is_required() else _default(field.get_default(call_default_factory=True))
        words = told.get(name) or " ".join(_beside(model, name).split()).rstrip(".")
        yield code(name), _type(fields[name]), default, prose(words)


def _type(schema: Document) -> str:
    """In words, without links: a section has a heading of its own."""
    return re.sub(r"\[(\w+)\]\([^)]*\)", r"section", schema_words(schema))


def _default(value: object) -> str:
    if isinstance(value, BaseModel):
        return "see the section"
    if isinstance(value, tuple):
        plain = [one.model_dump(mode="json") if isinstance(one, BaseModel) else one for one in value]
        return code(json.dumps(plain))
    return code(json.dumps(value))
