"""`muster context`, and which gateway and token a command uses."""

import asyncio
import json
import stat
from pathlib import Path
from typing import ClassVar, Self, cast

import pytest

from muster.cli import contexts
from muster.cli.api_access import ApiAccess, opened
from muster.cli.main import run
from muster.cli.options import chosen_state_dir
from muster.client.tokens import TokenError, TokenSource

EAST, WEST = "https://east.example", "https://west.example"


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's configuration directory, with a default state directory of its own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("MUSTER_STATE_DIR", "MUSTER_URL", "MUSTER_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "config" / "muster" / "contexts.json"


class FakeMuster:
    """Keeps the gateway and the source of the token."""

    local: ClassVar[list[Path]] = []
    """State directories whose gateway was used."""

    def __init__(self, url: str, token: str | TokenSource, *, ca_file: Path | None = None) -> None:
        self.url, self.token, self.ca_file = url, token, ca_file

    @classmethod
    def from_state_dir(cls, state_dir: Path, *, token: object = None, ca_file: Path | None = None) -> Self:
        cls.local.append(state_dir)
        return cls("local", "local", ca_file=ca_file)


@pytest.fixture(autouse=True)
def local(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The state directories whose gateway was used."""
    monkeypatch.setattr("muster.client.Muster", FakeMuster)
    monkeypatch.setattr(FakeMuster, "local", [])
    return FakeMuster.local


def set_context(name: str, url: str, tmp_path: Path, *more: str) -> Path:
    """Add a context whose token is in a file; return the file."""
    file = tmp_path / f"{name}.token"
    file.write_text(f"token-of-{name}")
    assert run(["context", "set", name, "--url", url, "--token-file", str(file), *more]) == 0
    return file


def used(access: ApiAccess | None = None, *, state_dir: Path | None = None) -> tuple[str, str]:
    """The URL and the token that a command uses."""
    muster = cast("FakeMuster", opened(state_dir or chosen_state_dir(), access or ApiAccess()))
    token = muster.token
    return muster.url, token if isinstance(token, str) else asyncio.run(token.token())


def test_the_first_context_is_the_current_one_and_the_file_is_private(tmp_path: Path, config: Path) -> None:
    set_context("east", EAST, tmp_path)
    set_context("west", WEST, tmp_path)
    assert contexts.load().current == "east"
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert "token-of-east" not in config.read_text(), "a context names the source of a token, not the token"


def test_commands_use_the_gateway_and_the_token_of_the_current_context(tmp_path: Path) -> None:
    set_context("east", EAST, tmp_path)
    set_context("west", WEST, tmp_path)
    assert used() == (EAST, "token-of-east")
    assert run(["context", "use", "west"]) == 0
    assert used() == (WEST, "token-of-west")


def test_no_token_of_a_context_is_sent_to_another_gateway(tmp_path: Path) -> None:
    set_context("east", EAST, tmp_path)
    other = tmp_path / "other"
    other.write_text("mine")
    assert used(ApiAccess(url="https://evil.example", token_file=other)) == ("https://evil.example", "mine")
    with pytest.raises(TokenError, match=r"no token for https://evil\.example"):
        used(ApiAccess(url="https://evil.example"))


def test_a_token_that_is_given_is_used_at_the_gateway_of_the_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_context("east", EAST, tmp_path)
    monkeypatch.setenv("MUSTER_TOKEN", "from-environment")
    assert used() == (EAST, "from-environment")


def test_a_state_directory_that_is_given_counts_before_the_context(tmp_path: Path, local: list[Path]) -> None:
    set_context("east", EAST, tmp_path)
    used(state_dir=tmp_path / "mine")
    used(ApiAccess(is_local=True))
    assert local == [tmp_path / "mine", chosen_state_dir()]


def test_without_contexts_the_default_state_directory_is_used(local: list[Path]) -> None:
    used()
    assert local == [chosen_state_dir()]


def test_contexts_are_listed_and_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = set_context("east", EAST, tmp_path)
    assert run(["context", "set", "west", "--url", f"{WEST}/", "--token-command", "vault read token"]) == 0
    capsys.readouterr()
    assert run(["context", "list", "--no-headers"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["*", "east", EAST, "file", str(file)]
    assert rows[1][:2] == ["west", WEST]
    assert run(["context", "list", "-o", "json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["contexts"]) == ["east", "west"]
    assert run(["context", "delete", "east", "--yes"]) == 0
    assert (contexts.load().current, list(contexts.load().contexts)) == ("", ["west"])


@pytest.mark.parametrize("command", ["use", "delete"])
def test_an_unknown_context_is_refused_with_the_known_ones(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_context("east", EAST, tmp_path)
    capsys.readouterr()
    assert run(["context", command, "north", *(["--yes"] if command == "delete" else [])]) == 2
    assert "NAME: there is no context north; the contexts are: east" in capsys.readouterr().err


def test_a_file_that_holds_no_contexts_is_refused(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.parent.mkdir(parents=True)
    config.write_text("{")
    assert run(["context", "list"]) == 2
    assert "cannot be read as contexts" in capsys.readouterr().err
