"""Variables of local jobs from files: whose file it must be, and that nothing else is read."""

import os
from pathlib import Path

import pytest

from muster.agent.local.processes import BYTES_MAX, SecretFileError, read_secrets
from muster.schemas.job import SecretVariable

ASKED = (SecretVariable(variable="TOKEN", secret="hub", key="token"),)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "vision" / "hub" / "token"
    path.parent.mkdir(parents=True)
    path.write_text("the-value\n")
    path.chmod(0o600)
    return path


def test_a_file_of_the_team_is_the_variable(tmp_path: Path, file: Path) -> None:
    assert read_secrets(ASKED, directory=tmp_path, team="vision") == {"TOKEN": "the-value"}


def test_another_teams_file_is_not_there(tmp_path: Path, file: Path) -> None:
    with pytest.raises(SecretFileError, match="cannot be read: No such file"):
        read_secrets(ASKED, directory=tmp_path, team="speech")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(SecretFileError, match="readable by no other") as refused:
        read_secrets(ASKED, directory=tmp_path, team="vision")
    assert "the-value" not in str(refused.value)


@pytest.mark.parametrize(
    ("secret", "key"), [("..", "x"), ("hub", ".."), ("../speech/hub", "token"), ("hub", "../hub/token"), (".", "x")]
)
def test_a_name_leads_out_of_no_directory(tmp_path: Path, file: Path, secret: str, key: str) -> None:
    asked = (SecretVariable(variable="TOKEN", secret=secret, key=key),)
    with pytest.raises(SecretFileError, match="without a slash"):
        read_secrets(asked, directory=tmp_path, team="vision")


def test_a_link_a_pipe_and_a_long_file_are_refused(tmp_path: Path, file: Path) -> None:
    content = file.with_name("content")
    file.rename(content)
    file.symlink_to(content)
    with pytest.raises(SecretFileError, match="cannot be read"):
        read_secrets(ASKED, directory=tmp_path, team="vision")
    file.unlink()
    os.mkfifo(file, mode=0o600)
    with pytest.raises(SecretFileError, match="must be a file"):
        read_secrets(ASKED, directory=tmp_path, team="vision")
    file.unlink()
    file.write_bytes(b"x" * (BYTES_MAX + 1))
    file.chmod(0o600)
    with pytest.raises(SecretFileError, match="at most"):
        read_secrets(ASKED, directory=tmp_path, team="vision")


def test_without_a_directory_no_job_may_name_any(tmp_path: Path) -> None:
    assert read_secrets((), directory=None, team="vision") == {}
    with pytest.raises(SecretFileError, match=r"set local\.secrets"):
        read_secrets(ASKED, directory=None, team="vision")
