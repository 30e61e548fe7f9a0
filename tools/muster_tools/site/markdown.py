"""Pieces of Markdown that every generated page is made of. Pure."""

import inspect
import re
from collections.abc import Iterable

from muster_tools.site.asyncapi_pages import BODIES, Document, type_words


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table; cells may hold Markdown on one line."""
    heads = list(headings)
    lines = [heads, ["---"] * len(heads), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def code(text: str) -> str:
    """Return the text as code; an empty text stays empty."""
    return f"`{text}`" if text else ""


def prose(text: str) -> str:
    """One line of plain text in which only `code` has a meaning."""
    pieces = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(piece if piece.startswith("`") else _escaped(piece) for piece in pieces)


def paragraphs(text: str) -> str:
    """Plain text whose paragraphs stay apart."""
    return "\n\n".join(prose(paragraph) for paragraph in text.strip().split("\n\n"))


def schema_words(schema: Document) -> str:
    """Return a JSON Schema's type in words, whose links lead to headings of the same page."""
    return type_words(schema).replace(f"({BODIES}#", "(#")


def documented(docstring: str, names: Iterable[str]) -> tuple[str, dict[str, str]]:
    """Return a docstring's general part, and its text about each name: `a, b: words`, up to the next such names."""
    text = inspect.cleandoc(docstring)
    one = f"(?:{'|'.join(sorted(names, key=len, reverse=True))})"
    marks = list(re.finditer(rf"(?:^|(?<=[.:;,]\s))({one}(?:,\s{one})*):\s", text, re.MULTILINE))
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    told: dict[str, str] = {}
    for mark, end in zip(marks, ends, strict=False):  # without marks there is one end too many
        words = " ".join(text[mark.end() : end].split()).rstrip(".;,")
        told |= dict.fromkeys(re.split(r",\s", mark[1]), words)
    return text[: marks[0].start()] if marks else text, told


def _escaped(text: str) -> str:
    return re.sub(r"([*_\[\]<])", lambda found: "&lt;" if found[1] == "<" else f"\\{found[1]}", text)
