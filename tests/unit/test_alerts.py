"""Rules and dashboards as they are written: tiers, runbooks, tests of every alert, files that follow their source."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import cast

import pytest
import typer
import yaml

from kit.observe.promql import selectors
from kit.observe.queries import BOARDS, PROMETHEUS, ROOT, Alert, Json, alerts, board_queries, rule_queries
from muster.cli.main import app
from muster_tools.grafana.boards import text_of
from muster_tools.grafana.catalogue import BOARDS as CATALOGUE

RUNBOOKS = ROOT / "docs" / "runbooks"
SECTIONS = ("## Meaning", "## How to look", "## What to do", "## When to call whom")
SEVERITIES = {1: "critical", 2: "warning", 3: "info"}
TESTS = sorted((PROMETHEUS / "tests").glob("*.yml"))
ALERTS = alerts()
_COMMAND = re.compile(r"`(muster [^`]+)`")
_LABEL = re.compile(r"\$labels\.(\w+)")


def promtool(*words: str) -> str:
    """What it said. Fails if it is not there, or not content."""
    program = shutil.which("promtool")
    assert program, "promtool is needed: on Debian `apt-get install prometheus`; .ci/run does that"
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def by_name(alert: Alert) -> str:
    return alert.name


@pytest.mark.parametrize("alert", ALERTS, ids=by_name)
def test_an_alert_says_how_bad_it_is_and_where_to_read_on(alert: Alert) -> None:
    assert re.fullmatch(r"Muster([A-Z][a-z]+)+", alert.name)
    assert alert.rule["labels"] == {"severity": SEVERITIES[alert.tier], "tier": str(alert.tier)}
    assert alert.text("summary")
    assert alert.text("description").endswith(".")
    assert alert.text("runbook") == f"docs/runbooks/{alert.name}.md"


@pytest.mark.parametrize("alert", ALERTS, ids=by_name)
def test_an_alert_has_a_runbook_that_says_what_to_do(alert: Alert) -> None:
    text = (RUNBOOKS / f"{alert.name}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {alert.name}\n")
    assert [line for line in text.splitlines() if line.startswith("## ")] == list(SECTIONS)
    for before, after in zip(SECTIONS, (*SECTIONS[1:], None), strict=True):
        part = text.partition(before)[2].partition(after)[0] if after else text.partition(before)[2]
        assert len(part.split()) >= 5, f"{before} says nothing"


def test_there_is_no_runbook_of_an_alert_that_is_not() -> None:
    assert {path.stem for path in RUNBOOKS.glob("Muster*.md")} == {alert.name for alert in ALERTS}
    listed = (RUNBOOKS / "index.md").read_text(encoding="utf-8")
    for alert in ALERTS:
        assert f"[{alert.name}]({alert.name}.md)" in listed


def test_commands_that_runbooks_name_are_there() -> None:
    said = {line for file in RUNBOOKS.glob("*.md") for line in _COMMAND.findall(file.read_text(encoding="utf-8"))}
    assert len(said) > 15
    root = typer.main.get_command(app)
    for line in said:
        command = root
        for word in line.split()[1:]:
            if word.startswith("-"):
                assert word in {name for one in command.params for name in one.opts}, f"{line}: no option {word}"
            else:
                command = getattr(command, "commands", {}).get(word, command)
        assert command is not root, f"there is no command {line}"
        takes = [one for one in command.params if one.param_type_name == "argument"]
        assert takes or "-" in line or not line.split()[-1].isupper(), f"{line} takes nothing"


@pytest.mark.parametrize("alert", ALERTS, ids=by_name)
def test_words_of_an_alert_name_labels_that_it_has(alert: Alert) -> None:
    named = {label for text in ("summary", "description") for label in _LABEL.findall(alert.text(text))}
    grouped = set[str]().union(*(one.wanted for one in selectors(str(alert.rule["expr"]))))
    has_all = "by (" not in str(alert.rule["expr"]) and "sum(" not in str(alert.rule["expr"])
    assert has_all or named <= grouped


def test_every_alert_is_tested_to_fire_and_to_be_quiet() -> None:
    fires, quiet = set(), set()
    for file in TESTS:
        for test in cast("list[Json]", yaml.safe_load(file.read_text())["tests"]):
            for case in cast("list[Json]", test["alert_rule_test"]):
                (fires if case["exp_alerts"] else quiet).add(case["alertname"])
    assert fires == quiet == {alert.name for alert in ALERTS}


def test_prometheus_takes_the_configuration_and_all_rules() -> None:
    assert "SUCCESS" in promtool("check", "config", str(PROMETHEUS / "prometheus.yml"))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("file", TESTS, ids=lambda path: path.stem)
def test_alerts_fire_when_they_should(file: Path) -> None:
    assert "SUCCESS" in promtool("test", "rules", str(file))


def test_every_query_can_be_read() -> None:
    queries = [*board_queries(), *rule_queries()]
    assert len(queries) > 150
    for query in queries:
        assert selectors(query.expr) or query.expr.startswith("vector("), query.where


def test_dashboards_are_what_their_catalogue_says() -> None:
    written = {f"{board.name}.json": text_of(board) for board in CATALOGUE}
    assert written == {path.name: path.read_text(encoding="utf-8") for path in BOARDS}, (
        "write them anew: python -m muster_tools.grafana.write"
    )


def test_collector_and_grafana_files_are_yaml_and_name_what_compose_has() -> None:
    services = set(yaml.safe_load((ROOT / "compose" / "compose.yaml").read_text())["services"])
    scraped = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["scrape_configs"]
    hosts = {target.split(":")[0] for job in scraped for one in job["static_configs"] for target in one["targets"]}
    assert hosts <= services | {"localhost"}
    collector = yaml.safe_load((ROOT / "compose" / "otel-collector" / "config.yaml").read_text())
    assert set(collector["service"]["pipelines"]) == {"traces", "metrics", "logs"}
    sources = yaml.safe_load((ROOT / "compose/grafana/provisioning/datasources/muster.yaml").read_text())
    assert {one["uid"] for one in sources["datasources"]} == {"prometheus", "jaeger"}
    folder = yaml.safe_load((ROOT / "compose/grafana/provisioning/dashboards/muster.yaml").read_text())
    assert folder["providers"][0]["options"]["path"] == "/etc/grafana/dashboards"
