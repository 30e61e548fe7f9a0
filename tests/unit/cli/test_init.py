"""`muster init`: what it says, and how it ends."""

from pathlib import Path

import pytest

from muster.cli.errors import ExitCode
from muster.cli.main import run
from muster.stack.ports import free_port


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MUSTER_STATE_DIR", "MUSTER_FLEET__NODES", "MUSTER_NATS_URL"):
        monkeypatch.delenv(name, raising=False)


def files(into: Path, *words: str) -> int:
    return run(("init", "files", "--into", str(into), *words))


def test_files_names_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert files(tmp_path) == ExitCode.OK
    assert "scheduler" in capsys.readouterr().out
    assert (tmp_path / "scheduler" / "settings.json").is_file()


def test_variables_go_before_the_settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "settings.yaml"
    told.write_text("fleet: {nodes: 5, gpus_per_node: 4}\n")
    monkeypatch.setenv("MUSTER_FLEET__NODES", "9")
    assert files(tmp_path / "out", "--settings", str(told)) == ExitCode.OK
    text = (tmp_path / "out" / "agent" / "settings.json").read_text()
    assert '"nodes": 9' in text
    assert '"gpus_per_node": 4' in text


@pytest.mark.parametrize("text", ["- a list", "fleet: {nodes: -1}", "flet: {nodes: 1}", "fleet: ["])
def test_a_settings_file_that_cannot_be_is_told(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = tmp_path / "settings.yaml"
    told.write_text(text)
    assert files(tmp_path / "out", "--settings", str(told)) == ExitCode.USAGE
    assert "settings" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_address_that_is_none_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert files(tmp_path, "--http-url", "127.0.0.1:8080") == ExitCode.USAGE
    assert "--http-url" in capsys.readouterr().err


def test_bus_gives_up_on_a_broker_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files(tmp_path)
    monkeypatch.setenv("MUSTER_NATS_URL", f"nats://127.0.0.1:{free_port()}")
    monkeypatch.setenv("MUSTER_CREDENTIALS_DIR", str(tmp_path / "bus" / "creds"))
    assert run(("init", "bus", "--state-dir", str(tmp_path / "bus"), "--patience-s", "0.6")) == ExitCode.UNREACHABLE
    assert "did not answer within 0.6 s" in capsys.readouterr().err


def test_queues_gives_up_on_a_gateway_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files(tmp_path, "--http-url", f"http://127.0.0.1:{free_port()}")
    assert run(("init", "queues", "--state-dir", str(tmp_path / "host"), "--patience-s", "0.6")) == ExitCode.UNREACHABLE
    assert "did not answer within 0.6 s" in capsys.readouterr().err
