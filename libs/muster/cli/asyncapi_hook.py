"""A hook of mkdocs: puts the pages of the AsyncAPI documents into the site while it is built.

In mkdocs.yml: `hooks: [libs/muster/cli/asyncapi_hook.py]`, and `reference/events/index.md` in the navigation. Nothing
is written beside the site: pages and documents exist for the build alone.
"""

from collections.abc import Mapping
from pathlib import Path

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic import JsonValue

from muster.cli.asyncapi_pages import pages

SECTION = "reference/events"
SOURCES = "proto-schemas/asyncapi"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called by mkdocs once it knows the site's files."""
    texts = read(Path(config.config_file_path).parent / SOURCES)
    for name, text in contents(texts).items():
        files.append(File.generated(config, f"{SECTION}/{name}", content=text))
    return files


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
