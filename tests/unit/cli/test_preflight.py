"""`muster preflight`: in a pod it ends well and leaves a report; for people the exit code says what was found."""

import threading
from pathlib import Path

import pytest

from muster.checks.report import load
from muster.checks.suites import BUILT_IN
from muster.cli import preflighting
from muster.cli.errors import ExitCode
from muster.cli.main import run
from muster.schemas.facts.operations import CheckOrder, CheckOutcome, PreflightPlan

STATE = ["--state-dir", "/nowhere"]


def own(*command: str) -> CheckOrder:
    return CheckOrder(check="command", command=command)


def in_a_pod(monkeypatch: pytest.MonkeyPatch, *checks: CheckOrder) -> None:
    plan = PreflightPlan(suite="ours", checks=checks)
    monkeypatch.setenv("MUSTER_PREFLIGHT_PLAN", plan.model_dump_json(exclude_defaults=True))


def test_in_a_pod_it_ends_well_and_leaves_what_it_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_pod(monkeypatch, own("false"))
    report = tmp_path / "report"
    assert run(["preflight", "run", "--report", str(report), *STATE]) == 0
    (found,) = load(report.read_text(encoding="utf-8"), (own("false"),), node="n")
    assert found.outcome is CheckOutcome.FAIL


def test_a_pod_with_nothing_to_check_leaves_an_empty_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_PREFLIGHT_PLAN", "")
    report = tmp_path / "report"
    assert run(["preflight", "run", "--report", str(report), *STATE]) == 0
    assert list(load(report.read_text(encoding="utf-8"), (), node="n")) == []


def test_outside_of_a_pod_a_suite_must_be_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MUSTER_PREFLIGHT_PLAN", raising=False)
    assert run(["preflight", "run", *STATE]) == ExitCode.USAGE
    assert "--suite: is missing; use one of quick" in capsys.readouterr().err


def test_a_suite_that_does_not_exist_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["preflight", "run", "--suite", "gone", *STATE]) == ExitCode.USAGE
    assert "there is no suite 'gone'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "code"), [("true", 0), ("false", ExitCode.JOBS_FAILED), ("no-such-program", ExitCode.REFUSED)]
)
def test_for_people_the_exit_code_says_what_was_found(
    command: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = f"""{{"state_dir": "{tmp_path}", "credentials_dir": "{tmp_path}", "preflight": {{"suites": [
        {{"name": "ours", "checks": [{{"check": "command", "command": ["{command}"]}}]}}]}}}}"""
    (tmp_path / "settings.json").write_text(settings, encoding="utf-8")
    assert run(["preflight", "run", "--suite", "ours", "--state-dir", str(tmp_path)]) == code
    assert "command" in capsys.readouterr().out


def test_every_suite_and_check_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["preflight", "list", *STATE]) == 0
    shown = capsys.readouterr().out
    for suite in BUILT_IN:
        assert suite in shown
    assert "gb_per_s_min" in shown
    assert [line.split()[2] for line in shown.splitlines() if line.startswith("dcgm ")] == ["alone"]


def test_a_gate_opens_when_the_file_says_so_and_not_before(tmp_path: Path) -> None:
    file = tmp_path / "gate"
    waiting = threading.Thread(target=preflighting.wait_at_gate, args=(file,), kwargs={"poll_s": 0.05}, daemon=True)
    waiting.start()
    for text in ("", "no", "opened"):
        file.write_text(text, encoding="utf-8")
        waiting.join(0.12)
        assert waiting.is_alive()
    file.write_text("open", encoding="utf-8")
    waiting.join(10)
    assert not waiting.is_alive()
