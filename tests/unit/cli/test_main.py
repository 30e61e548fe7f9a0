"""The command line from outside: exit codes, and what stands on stderr."""

import sys
from importlib.metadata import version
from pathlib import Path
from subprocess import run as run_process

import pytest

from muster.cli.main import run


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run(arguments)
    return code, capsys.readouterr().err


def test_help_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert "submit" in capsys.readouterr().out


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"muster {version('gpumuster')}\n"


def test_help_loads_nothing_heavy() -> None:
    """Pydantic, NATS, FastAPI, NumPy cost a second together; `muster --help` and the supervisor go without."""
    code = (
        "import sys; from muster.cli import main\n"
        "heavy = {'pydantic', 'nats', 'fastapi', 'numpy', 'aiohttp', 'faststream', 'yaml'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    run_process([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    "arguments",
    [
        ("no-such-command",),
        ("queue", "--limit", "many"),
        ("submit",),
        ("submit", "no-such-file.yaml"),
        ("submit", "--gpus", "-1"),
        ("submit", "--gpus", "1", "--gpu-milli", "500"),
        ("submit", "--gpus", "1", "--label", "novalue"),
        ("submit", "--gpus", "1", "--command", "'open"),
        ("submit", "file.yaml", "--gpus", "1"),
        ("token", "create", "ann", "--role", "king"),
        ("token", "create", "ann", "--role", "submitter"),
        ("queues", "set"),
        ("serve", "no-such-service"),
        ("log", "skip", "0", "--service", "scheduler"),
    ],
)
def test_a_wrong_command_is_usage(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    code, told = outcome(capsys, *arguments)
    assert code == 2
    assert told


def test_a_bad_option_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    _, told = outcome(capsys, "submit", "--gpus", "1", "--replicas", "0")
    assert told.startswith("muster: --replicas: ")


def test_a_bad_file_is_named_with_its_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("name: a\ntask_groups: [{}]\n")
    code, told = outcome(capsys, "submit", str(path))
    assert code == 2
    assert told == f"muster: {path}: team: is missing; add it\n"


def test_a_bad_queue_file_is_told_before_anything_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "queues.yaml"
    path.write_text("name: Research\n")
    code, told = outcome(capsys, "up", "--detach", "--state-dir", str(tmp_path / "state"), "--queues", str(path))
    assert code == 2
    assert "name:" in told
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    "command",
    [
        ("status",),
        ("queue",),
        ("nodes",),
        ("events",),
        ("why", "A" * 26),
        ("log", "trim", "--archive", "a"),
        ("log", "dead"),
        ("log", "repair-fence", "--service", "scheduler"),
        ("reservations",),
    ],
)
def test_without_a_stack_nothing_is_reachable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    code, told = outcome(capsys, *command, "--state-dir", str(tmp_path / "none"))
    assert code == 4
    assert "muster up" in told


def test_stopping_what_does_not_run_is_fine(tmp_path: Path) -> None:
    assert run(["down", "--state-dir", str(tmp_path / "none")]) == 0
