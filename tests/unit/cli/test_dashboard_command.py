"""`muster dashboard`: what it prints, and what `muster up` says of it."""

from pathlib import Path

import pytest

from muster.cli.login_commands import login_address
from muster.cli.main import run
from muster.cli.starting import where
from muster.schemas.access import Endpoints

ENDPOINTS = Endpoints(http="http://127.0.0.1:8080", websocket="ws://127.0.0.1:9222")


def state_of(directory: Path, *, token: str) -> Path:
    """A state directory as a running stack leaves it."""
    (directory / "run").mkdir()
    (directory / "run" / "endpoints.json").write_text(ENDPOINTS.model_dump_json())
    (directory / "token").write_text(f"{token}\n")
    return directory


def test_the_address_carries_the_token_where_no_server_sees_it(tmp_path: Path) -> None:
    assert login_address(state_of(tmp_path, token="muster_a-b_c")) == "http://127.0.0.1:8080/#token=muster_a-b_c"


def test_a_token_is_written_as_an_address_can_hold_it(tmp_path: Path) -> None:
    assert login_address(state_of(tmp_path, token="a+b&c")).endswith("#token=a%2Bb%26c")


def test_without_a_stack_it_says_how_to_start_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dashboard", "--state-dir", str(tmp_path)]) == 4
    assert "muster up" in capsys.readouterr().err


def test_starting_names_the_dashboard_and_shows_no_token(tmp_path: Path) -> None:
    told = where(state_of(tmp_path, token="secret"), ENDPOINTS)
    assert "dashboard  http://127.0.0.1:8080" in told
    assert "secret" not in told
