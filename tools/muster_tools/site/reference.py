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
from muster.schemas.registry import STATE_TABLE, TABLE
from muster_tools.site import command_pages, fact_pages, http_pages, metric_pages, settings_pages
from muster_tools.site.asyncapi_pages import BODIES

SECTION = "reference"


def contents(events: Mapping[str, str]) -> dict[str, str]:
    """Return every file of the section by name, without the pages of the messages. events: for links to bodies."""
    api = document()
    bodies = frozenset(re.findall(r"^## (\w+)$", events[BODIES], re.MULTILINE))
    root = typer.main.get_command(app)
    assert isinstance(root, command_pages.Command), "the command line is a tree of typer's commands"
    return {
        "cli.md": command_pages.page(root, name="muster"),
        "http.md": http_pages.page(cast("Mapping[str, JsonValue]", api)),
        "openapi.json": json.dumps(api, indent=1) + "\n",
        "settings.md": settings_pages.page(Settings),
        "facts.md": fact_pages.page(TABLE, STATE_TABLE, bodies=bodies),
        "metrics.md": metric_pages.page(metric_pages.exported()),
    }
