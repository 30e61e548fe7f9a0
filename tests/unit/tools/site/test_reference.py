"""The generated reference holds everything that the code has, and says something of each."""

import dataclasses
import json
import re
from pathlib import Path

import pytest
import typer.main
from pydantic import BaseModel

from muster.bus.ports import LogCounters
from muster.bus.settings import Settings
from muster.cli.main import app
from muster.kube.musterjob import spec_schema, status_schema
from muster.schemas.registry import STATE_TABLE, TABLE
from muster_tools.site import command_pages, settings_pages
from muster_tools.site.asyncapi_pages import SOURCES, section
from muster_tools.site.markdown import documented
from muster_tools.site.reference import contents

ROOT = Path(__file__).parents[4]
SECTIONS = settings_pages.sections(Settings)


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return contents(section(ROOT / SOURCES))


def test_every_command_has_a_section_with_all_its_options(made: dict[str, str]) -> None:
    commands = dict(command_pages.commands(typer.main.get_command(app), "muster"))  # type: ignore[arg-type]
    sections = dict(re.findall(r"^## (muster [a-z -]+)\n(.*?)(?=^## |\Z)", made["cli.md"], re.MULTILINE | re.DOTALL))
    assert sections.keys() == commands.keys()
    assert {"muster submit", "muster queues set", "muster bench surge"} <= commands.keys()
    for path, command in commands.items():
        for parameter in command.params:
            for spelled in set(parameter.opts) - command_pages.HIDDEN:
                assert not spelled.startswith("-") or spelled in sections[path], f"{path} {spelled}"


def test_every_operation_of_the_gateway_is_shown_and_every_link_to_a_body_finds_it(made: dict[str, str]) -> None:
    page, document = made["http.md"], json.loads(made["openapi.json"])
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"## {method.upper()} {path}\n" in page
    headings = {heading.lower() for heading in re.findall(r"^## (\w+)$", page, re.MULTILINE)}
    links = set(re.findall(r"\(#([^)]+)\)", page))
    assert links <= headings
    assert {"jobspec", "jobview"} <= links


@pytest.mark.parametrize(("path", "model"), SECTIONS, ids=[path or "top" for path, _ in SECTIONS])
def test_every_setting_is_told_in_its_section(path: str, model: type[BaseModel], made: dict[str, str]) -> None:
    heading = re.escape(path or "At the top")
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", made["settings.md"], re.MULTILINE | re.DOTALL)
    assert found is not None
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", found[1], re.MULTILINE))
    assert rows.keys() == model.model_fields.keys()
    assert not [name for name, told in rows.items() if not told], "say in the docstring what they do: `name: words.`"


def test_a_setting_shows_its_type_and_default(made: dict[str, str]) -> None:
    assert "| `attempts_max` | integer (≥ 1, ≤ 100) | `5` |" in made["settings.md"]
    assert "| `state_dir` | string | needed |" in made["settings.md"]


def test_metrics_have_their_labels_and_words_and_stand_with_their_service(made: dict[str, str]) -> None:
    page = made["metrics.md"]
    scheduler = page[page.index("## Scheduler") : page.index("## Scaler")]
    assert "| `muster_jobs_placed_total` | counter | `team` | Placements of jobs, over all attempts. |" in scheduler
    for metric in ("muster_http_requests_total", "muster_view_slices_total", "muster_webhook_attempts_total"):
        assert f"| `{metric}` | counter |" in page
    assert "`muster_loop_late_seconds` | histogram |" in page
    assert not re.findall(r"^\| `\w+` \|.*\|\s*\|$", page, re.MULTILINE), "a metric without words"
    assert len(re.findall(r"`muster_log_\w+_total`", page)) == len(dataclasses.fields(LogCounters))


def test_every_fact_is_shown_with_its_writer_and_its_fields(made: dict[str, str]) -> None:
    rows = re.findall(r"^\| `(\S+ \S+)` \| (.+?) \|", made["facts.md"], re.MULTILINE)
    assert len(rows) == len(TABLE) + len(STATE_TABLE)
    assert ("job placed", "scheduler") in rows
    assert (
        "[JobPlaced](events/bodies.md#jobplaced) | **attempt**, **slots**, slice\\_s, preflight |" in made["facts.md"]
    )


def test_every_field_of_the_custom_resource_is_shown_with_its_type_and_whether_it_is_required(
    made: dict[str, str],
) -> None:
    rows = dict(re.findall(r"^\| \**`([^`]+)`\** \| ([^|]+) \|", made["crds.md"], re.MULTILINE))
    assert {f"spec.{name}" for name in spec_schema()["properties"]} <= rows.keys()  # type: ignore[attr-defined]
    assert {f"status.{name}" for name in status_schema()["properties"]} <= rows.keys()  # type: ignore[attr-defined]
    assert rows["spec.taskGroups[].gpus"].startswith("integer")
    assert rows["spec.totalRunTimeS"].startswith("number (> 0, ")
    assert "| **`spec.taskGroups`** |" in made["crds.md"]
    assert "| `spec.retries` |" in made["crds.md"]


def test_the_index_links_to_every_page_of_the_reference(made: dict[str, str]) -> None:
    pages = {name for name in made if name != "index.md"}
    assert pages <= set(re.findall(r"\]\(([^)]+)\)", made["index.md"]))


def test_a_docstring_is_read_by_the_names_in_it() -> None:
    docstring = """All of it.

    one, two: they go together: so. three: on its own;
        over two lines.
    """
    whole, told = documented(docstring, ["one", "two", "three", "four"])
    assert whole.strip() == "All of it."
    assert told == {
        "one": "they go together: so",
        "two": "they go together: so",
        "three": "on its own; over two lines",
    }
