"""The reference: pages that are made from the code whenever the site is built, and never committed."""

import json
import re
from collections.abc import Mapping
from typing import cast

import typer.main
from pydantic import JsonValue

from muster.bus.settings import Settings
from muster.cli.main import app
from muster.gateway.http import document
from muster.kube.musterjob import spec_schema, status_schema
from muster.schemas.registry import STATE_TABLE, TABLE
from muster_tools.site import command_pages, crd_pages, fact_pages, http_pages, metric_pages, settings_pages
from muster_tools.site.asyncapi_pages import BODIES

SECTION = "reference"
INDEX = """# Reference

These pages are generated from the code whenever the site is built.

| page | content |
|---|---|
| [The command line](cli.md) | every command with its options |
| [The HTTP API](http.md) | every path with its bodies; as [OpenAPI](openapi.json); also `/docs` of a gateway |
| [Settings](settings.md) | every section and field of `settings.json` |
| [Metrics](metrics.md) | every metric with its labels |
| [Facts](facts.md) | every fact with its writer and its fields |
| [Messages](events/index.md) | what each service writes, reads and answers, also as AsyncAPI |
| [Custom resources](crds.md) | the fields of MusterJob |

Written by hand: the [glossary](../glossary.md) and the [benchmarks](../benchmarks.md).
"""


def contents(events: Mapping[str, str]) -> dict[str, str]:
    """Return every file of the section by name, without the pages of the messages. events: for links to bodies."""
    api = document()
    bodies = frozenset(re.findall(r"^## (\w+)$", events[BODIES], re.MULTILINE))
    root = typer.main.get_command(app)
    assert isinstance(root, command_pages.Command), "the command line is a tree of typer's commands"
    return {
        "index.md": INDEX,
        "crds.md": crd_pages.page(spec_schema(), status_schema()),
        "cli.md": command_pages.page(root, name="muster"),
        "http.md": http_pages.page(cast("Mapping[str, JsonValue]", api)),
        "openapi.json": json.dumps(api, indent=1) + "\n",
        "settings.md": settings_pages.page(Settings),
        "facts.md": fact_pages.page(TABLE, STATE_TABLE, bodies=bodies),
        "metrics.md": metric_pages.page(metric_pages.exported()),
    }
