"""The committed schemas are what the code says; a fact never changes incompatibly."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from muster.cli import schema_files
from muster.cli.errors import CliError, ExitCode
from muster.schemas.export import fact_schemas, render
from muster.schemas.registry import STATE_TABLE, TABLE
from muster.stack.declared import declaration_of

COMMITTED = Path(__file__).parents[3] / "proto-schemas"


@pytest.fixture(scope="module")
def plan() -> dict[str, str]:
    return schema_files.planned()


def test_what_is_committed_is_what_the_code_says(plan: dict[str, str]) -> None:
    found = schema_files.difference(COMMITTED, plan)
    assert found.is_none, "\n".join(found.lines())


def test_every_fact_has_a_schema_that_is_a_schema() -> None:
    schemas = fact_schemas()
    assert len(schemas) == len(TABLE) + len(STATE_TABLE)
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_an_export_is_the_same_every_time(plan: dict[str, str]) -> None:
    assert schema_files.planned() == plan


@pytest.fixture
def exported(tmp_path: Path, plan: dict[str, str]) -> Path:
    schema_files.write(tmp_path, plan, allow_breaking=False)
    return tmp_path


def rewrite(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_stale_file_is_told_with_the_command_that_cures_it(exported: Path, plan: dict[str, str]) -> None:
    rewrite(exported / "json" / "log.scheduler.job.placed.json", "until `queued` again", "for ever")
    found = schema_files.difference(exported, plan)
    assert found.stale == ("json/log.scheduler.job.placed.json",)
    assert any("muster schemas export" in line for line in found.lines())


def test_an_incompatible_change_is_told_with_its_cure(exported: Path, plan: dict[str, str]) -> None:
    rewrite(exported / "json" / "log.scheduler.job.placed.json", '"attempt"', '"attempts"')
    told = "\n".join(schema_files.difference(exported, plan).lines())
    assert "attempts: field removed" in told
    assert "a breaking change is a new fact name" in told


def test_an_incompatible_change_is_not_written_over_without_being_asked(exported: Path, plan: dict[str, str]) -> None:
    path = exported / "json" / "log.scheduler.job.placed.json"
    rewrite(path, '"attempt"', '"attempts"')
    before = path.read_text()
    with pytest.raises(CliError) as error:
        schema_files.write(exported, plan, allow_breaking=False)
    assert error.value.code is ExitCode.REFUSED
    assert path.read_text() == before
    schema_files.write(exported, plan, allow_breaking=True)
    assert schema_files.difference(exported, plan).is_none


def test_a_fact_that_left_the_table_is_an_incompatible_change(exported: Path, plan: dict[str, str]) -> None:
    (exported / "json" / "log.scheduler.job.forgotten.json").write_text(render({}))
    found = schema_files.difference(exported, plan)
    assert [one.file for one in found.breaks] == ["log.scheduler.job.forgotten.json"]


@pytest.fixture(scope="module")
def committed() -> dict[str, Any]:
    """The documents of all services, by service."""
    return {
        service: yaml.load((COMMITTED / "asyncapi" / f"{service}.yaml").read_text(), Loader=yaml.CSafeLoader)
        for service in schema_files.services()
    }


@pytest.mark.parametrize("service", schema_files.services())
def test_a_service_document_names_what_it_writes_and_answers(service: str, committed: dict[str, Any]) -> None:
    document = committed[service]
    assert document["asyncapi"] == "3.0.0"
    sent = {document["channels"][name]["address"] for name in document["channels"] if name.startswith("write ")}
    own = {row.name for row in TABLE if row.writer == service and row.stream.value != "fedup"}
    assert own <= {address.rsplit(".", 1)[1] for address in sent}
    for query in declaration_of(service).queries:
        operation = document["operations"][f"answer {query.name}"]
        assert operation["action"] == "receive"
        assert "reply" in operation


@pytest.mark.parametrize("service", schema_files.services())
def test_every_reference_of_a_document_leads_somewhere(service: str, committed: dict[str, Any]) -> None:
    document = committed[service]
    for reference in references(document):
        target: object = document
        for step in reference.removeprefix("#/").split("/"):
            assert isinstance(target, dict)
            target = target[step.replace("%20", " ")]


def references(value: object) -> list[str]:
    if isinstance(value, dict):
        inner = [one for item in value.values() for one in references(item)]
        return [*inner, value["$ref"]] if isinstance(value.get("$ref"), str) else inner
    return [one for item in value for one in references(item)] if isinstance(value, list) else []
