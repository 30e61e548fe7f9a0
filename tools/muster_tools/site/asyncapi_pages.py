"""AsyncAPI documents as pages for people: Markdown that the documentation site turns into HTML.

The published renderers are JavaScript applications that load themselves from elsewhere; the documents need tables only.
One page per service says what it writes, folds and answers; one page holds every body once, since services share them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import cast

import yaml
from pydantic import JsonValue

SECTION = "reference/events"
SOURCES = "proto-schemas/asyncapi"


def read(directory: Path) -> dict[str, str]:
    """Return the documents by service. Raises OSError; FileNotFoundError if there is none."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(directory.glob("*.yaml"))}
    if not texts:
        raise FileNotFoundError(f"{directory} holds no AsyncAPI documents; `muster schemas export` writes them")
    return texts


def section(directory: Path) -> Mapping[str, str]:
    """Return every file of the section by name, from the documents in a directory. Raises OSError."""
    return _contents(tuple(read(directory).items()))


@lru_cache(maxsize=1)
def _contents(documents: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Keep the last: a build asks twice, and it takes seconds."""
    return MappingProxyType(contents(dict(documents)))


def contents(texts: Mapping[str, str]) -> dict[str, str]:
    """Return every file of the section by name: the pages, and the documents. (The C loader is ten times as fast.)"""
    documents: dict[str, dict[str, JsonValue]] = {
        service: yaml.load(text, Loader=yaml.CSafeLoader) for service, text in texts.items()
    }
    return {**pages(documents), **{f"{service}.yaml": text for service, text in texts.items()}}


Document = Mapping[str, JsonValue]

BODIES = "bodies.md"
INDEX = "index.md"
_GROUPS = (
    ("write ", "Writes", "Facts that it appends; no other service may."),
    ("fold ", "Folds", "Facts that change its state, in the order of the log."),
    ("consume ", "Consumes", "Facts that it takes one by one, by durable consumers with acknowledgements."),
    ("answer ", "Answers", "Questions over request-reply."),
    ("emit ", "Emits", "Messages outside the logs."),
)
_HEADERS = (
    ("ce-id", "the fact's id, also `Nats-Msg-Id`: the same fact stored twice is recognized"),
    ("ce-type", "`muster.<kind>.<fact>.v1`"),
    ("ce-source", "`/muster/<cluster or fed>/<writer>`"),
    ("ce-causes", "ids of the facts that led to it, joined by commas"),
    ("traceparent", "W3C trace context of the job"),
)


def pages(documents: Mapping[str, Document]) -> dict[str, str]:
    """Return all pages by file name. documents: by service.

    Raises ValueError if two documents give one body differently: each is shown once.
    """
    bodies = _bodies(documents)
    return {
        INDEX: _index(documents),
        BODIES: _bodies_page(bodies),
        **{f"{service}.md": _service_page(service, document) for service, document in sorted(documents.items())},
    }


def _index(documents: Mapping[str, Document]) -> str:
    rows = []
    for service, document in sorted(documents.items()):
        counts = [str(len(_operations(document, prefix))) for prefix, _, _ in _GROUPS]
        rows.append((f"[{service}]({service}.md)", *counts, f"[{service}.yaml]({service}.yaml)"))
    headings = ("service", *(title.lower() for _, title, _ in _GROUPS), "AsyncAPI 3.0")
    envelope = _table(("header", "meaning"), ((f"`{name}`", meaning) for name, meaning in _HEADERS))
    return (
        "# Messages\n\nEverything that services say to each other, generated from the code. Facts are CloudEvents 1.0 "
        f"in NATS binary mode: attributes as headers, the [body]({BODIES}) as JSON.\n\n"
        f"{_table(headings, rows)}\n## Headers of a fact\n\n{envelope}"
    )


def _service_page(service: str, document: Document) -> str:
    info = _section(document, "info")
    parts = [f"# {service}\n\n{_prose(_text(info, 'description'))}\n\n[{service}.yaml]({service}.yaml)\n"]
    for prefix, title, what in _GROUPS:
        names = _operations(document, prefix)
        if not names:
            continue
        headings = ("subject", "body", *(("answer",) if prefix == "answer " else ()), "what")
        rows = (_row(document, name, with_answer=prefix == "answer ") for name in names)
        parts.append(f"## {title}\n\n{what}\n\n{_table(headings, rows)}")
    return "\n".join(parts)


def _row(document: Document, operation: str, *, with_answer: bool) -> tuple[str, ...]:
    channel = _section(_section(document, "channels"), operation)
    answers = (_body_link(document, f"reply {operation.removeprefix('answer ')}"),) if with_answer else ()
    what = _prose(_text(channel, "description"))
    return f"`{_text(channel, 'address')}`", _body_link(document, operation), *answers, what


def _body_link(document: Document, channel: str) -> str:
    """Link to the body of the channel's message; `-` if it has none of a fixed form."""
    messages = _section(_section(_section(document, "channels"), channel), "messages")
    for message in messages.values():
        found = _followed(document, _text(cast("Document", message), "$ref"))
        name = _text(_section(found, "payload"), "$ref").rsplit("/", 1)[-1]
        schema = _section(_section(document, "components"), "schemas").get(name)
        if schema:
            return _link(name)
    return "-"


def _bodies(documents: Mapping[str, Document]) -> dict[str, Document]:
    bodies: dict[str, Document] = {}
    for service, document in documents.items():
        for name, schema in _section(_section(document, "components"), "schemas").items():
            if not schema:  # an emission whose bytes are not JSON of a fixed form
                continue
            if bodies.setdefault(name, cast("Document", schema)) != schema:
                raise ValueError(
                    f"{service}: body {name} differs from that of another service; export the documents anew"
                )
    return bodies


def _bodies_page(bodies: Mapping[str, Document]) -> str:
    parts = ["# Bodies\n\nFields without a default are required; readers ignore fields that they do not know.\n"]
    for name, schema in sorted(bodies.items()):
        parts.append(f"## {name}\n\n{_paragraphs(_text(schema, 'description'))}\n")
        if "enum" in schema:
            parts.append(f"One of {type_words(schema)}.\n")
        elif "properties" in schema:
            parts.append(_table(("field", "type", "default"), _fields(schema)))
    return "\n".join(parts)


def _fields(schema: Document) -> Iterator[tuple[str, ...]]:
    required = cast("list[str]", schema.get("required", []))
    for name, field in _section(schema, "properties").items():
        described = cast("Document", field)
        default = "" if name in required else f"`{_json(described.get('default'))}`"
        yield f"`{name}`", type_words(described), default


def type_words(schema: Document) -> str:
    """Return a JSON Schema's type in words, with links to other bodies, and the bounds that matter to writers."""
    if "$ref" in schema:
        return _link(_text(schema, "$ref").rsplit("/", 1)[-1])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in cast("list[JsonValue]", schema["enum"]))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        return " or ".join(type_words(one) for one in cast("list[Document]", schema["anyOf"]))
    match schema.get("type"):
        case "array":
            return _array_words(schema)
        case "object":
            inner = schema.get("additionalProperties")
            return f"map to {type_words(cast('Document', inner))}" if isinstance(inner, dict) else "object"
        case str(kind):
            return kind + _bounds(schema)
    return "any"


def _array_words(schema: Document) -> str:
    if "prefixItems" in schema:
        return f"({', '.join(type_words(one) for one in cast('list[Document]', schema['prefixItems']))})"
    items = schema.get("items")
    limit = f" (at most {schema['maxItems']})" if "maxItems" in schema else ""
    return f"list of {type_words(cast('Document', items))}{limit}" if isinstance(items, dict) else f"list{limit}"


def _bounds(schema: Document) -> str:
    said = [
        f"{sign} {schema[key]}"
        for key, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("maxLength", "length ≤"))
        if key in schema
    ]
    return f" ({', '.join(said)})" if said else ""


def _operations(document: Document, prefix: str) -> list[str]:
    return sorted(name for name in _section(document, "operations") if name.startswith(prefix))


def _followed(document: Document, reference: str) -> Document:
    target: Document = document
    for step in reference.removeprefix("#/").split("/"):
        target = _section(target, step.replace("%20", " "))
    return target


def _section(parent: Document, name: str) -> Document:
    found = parent.get(name, {})
    return found if isinstance(found, dict) else {}


def _text(parent: Document, name: str) -> str:
    found = parent.get(name, "")
    return found if isinstance(found, str) else ""


def _link(name: str) -> str:
    return f"[{name}]({BODIES}#{name.lower()})"


def _json(value: JsonValue) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(headings)
    lines = [heads, ["---"] * len(heads), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _prose(text: str) -> str:
    """One line, with what HTML would swallow escaped outside code."""
    pieces = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(
        piece if piece.startswith("`") else piece.replace("<", "&lt;").replace("*", "\\*") for piece in pieces
    )


def _paragraphs(text: str) -> str:
    return "\n\n".join(_prose(paragraph) for paragraph in text.split("\n\n"))
