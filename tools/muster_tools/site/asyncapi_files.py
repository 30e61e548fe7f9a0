"""The messages' section of the site: the committed AsyncAPI documents, and the pages made from them."""

from collections.abc import Mapping
from pathlib import Path

import yaml
from pydantic import JsonValue

from muster_tools.site.asyncapi_pages import pages

SECTION = "reference/events"
SOURCES = "proto-schemas/asyncapi"


def read(directory: Path) -> dict[str, str]:
    """The documents by service. Raises OSError; FileNotFoundError if there is none."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(directory.glob("*.yaml"))}
    if not texts:
        raise FileNotFoundError(f"{directory} holds no AsyncAPI documents; `muster schemas export` writes them")
    return texts


def contents(texts: Mapping[str, str]) -> dict[str, str]:
    """Every file of the section by name: the pages, and the documents themselves. (The C loader: ten times as fast.)"""
    documents: dict[str, dict[str, JsonValue]] = {
        service: yaml.load(text, Loader=yaml.CSafeLoader) for service, text in texts.items()
    }
    return {**pages(documents), **{f"{service}.yaml": text for service, text in texts.items()}}
