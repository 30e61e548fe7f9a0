"""`muster edit`."""

from pathlib import Path

import pytest

from muster.cli.main import run
from muster.schemas.job import Phase
from muster.schemas.views import JobView
from unit.cli.fake_muster import FakeMuster

JOB = "A" * 26


@pytest.fixture(autouse=True)
def job(muster: FakeMuster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    muster.jobs[JOB] = JobView(
        id=JOB, name="train", team="blue", principal="ann", queue="blue", phase=Phase.QUEUED, priority=50,
        total_run_time_s=3_600.0, min_slice_s=60.0,
    )  # fmt: skip


def an_editor(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """An editor that copies what it was given, and does this with the file `$1`."""
    program = folder / "my editor"
    program.write_text(f'#!/bin/sh\ncp "$1" {folder}/seen\n{script}\n')
    program.chmod(0o700)
    monkeypatch.setenv("EDITOR", f"'{program}'")
    return folder / "seen"


def test_fields_are_set_by_options(muster: FakeMuster, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--set", "priority=70", "--set", "total_run_time_s=600", "--reason", "shorter data"]
    assert run(["edit", JOB, *words]) == 0
    assert muster.asked_of_jobs == [("edit {'priority': 70, 'total_run_time_s': 600.0}", JOB, "shorter data")]
    assert capsys.readouterr().out == f"{JOB}: priority 70, total_run_time_s 600 requested, was queued\n"


def test_the_editor_shows_the_values_and_only_what_differs_is_requested(
    muster: FakeMuster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = an_editor(tmp_path, monkeypatch, "sed -i 's/^min_slice_s:.*/min_slice_s: 120/' \"$1\"")
    assert run(["edit", JOB]) == 0
    assert "priority: 50\ntotal_run_time_s: 3600.0\nmin_slice_s: 60.0\n" in seen.read_text()
    assert muster.asked_of_jobs == [("edit {'min_slice_s': 120.0}", JOB, "")]


@pytest.mark.parametrize(
    ("script", "code", "told"),
    [
        ("true", 0, "nothing was changed"),
        ("exit 3", 2, "ended with exit code 3; no change was requested"),
        ("echo 'gpus: 4' >> \"$1\"", 2, "editor: gpus: cannot change after submission"),
        ('echo nonsense > "$1"', 2, "editor: the file is no mapping of fields"),
        ("echo 'priority: [' > \"$1\"", 2, "editor: "),
        ("echo 'priority:' > \"$1\"", 2, "editor: priority: has no value"),
    ],
)
def test_nothing_is_requested_after_an_unchanged_or_wrong_file(
    *, muster: FakeMuster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    script: str, code: int, told: str,
) -> None:  # fmt: skip
    an_editor(tmp_path, monkeypatch, script)
    assert run(["edit", JOB]) == code
    out, err = capsys.readouterr()
    assert told in out + err
    assert muster.asked_of_jobs == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "neither VISUAL nor EDITOR names an editor"),
        (["--set", "priority"], "'priority' is not FIELD=VALUE"),
        (["--set", "priority=1", "--set", "priority=2"], "'priority' is given twice"),
        (["--set", "priority=many"], "priority: "),
        (["--set", "priority="], "priority: has no value"),
        (["--set", "gpus=16"], "gpus: cannot change after submission; cancel the job and submit it again"),
        (
            ["--set", "colour=red"],
            "colour: is no field; fields that can change: priority, total_run_time_s, min_slice_s",
        ),
        (["--set", "min_slice_s=[1"], "--set: min_slice_s: "),
    ],
)
def test_a_wrong_field_or_value_is_a_mistake_of_usage(
    muster: FakeMuster, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert run(["edit", JOB, *words]) == 2
    assert told in capsys.readouterr().err
    assert muster.asked_of_jobs == []


def test_an_editor_that_is_not_there_is_told(
    muster: FakeMuster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VISUAL", "/nonexistent/editor")
    assert run(["edit", JOB]) == 2
    assert "EDITOR: /nonexistent/editor cannot be started" in capsys.readouterr().err
    assert muster.asked_of_jobs == []
