"""Credentials of a fabric's manager: read from a file, never shown."""

import json
from pathlib import Path

import pytest

from kit.fabrics import LOGIN
from muster.fabric.token import CredentialsError, read_credentials

SECRETS = (LOGIN["password"], LOGIN["client_secret"])


def test_secrets_do_not_show_when_credentials_are_printed(tmp_path: Path) -> None:
    path = tmp_path / "login.json"
    path.write_text(json.dumps(LOGIN))
    credentials = read_credentials(path)
    assert credentials.password.get_secret_value() == LOGIN["password"]
    for secret in SECRETS:
        assert secret not in repr(credentials)
        assert secret not in str(credentials.model_dump())


@pytest.mark.parametrize("field", ["username", "password", "realm", "client_id"])
def test_a_field_that_is_missing_is_named(tmp_path: Path, field: str) -> None:
    path = tmp_path / "login.json"
    path.write_text(json.dumps({name: value for name, value in LOGIN.items() if name != field}))
    with pytest.raises(CredentialsError, match=field):
        read_credentials(path)


@pytest.mark.parametrize("text", ["", "correct horse", '["correct horse"]', '{"password": ["correct horse"]}'])
def test_a_file_of_another_shape_is_refused_without_its_content(tmp_path: Path, text: str) -> None:
    path = tmp_path / "login.json"
    path.write_text(text)
    with pytest.raises(CredentialsError) as refused:
        read_credentials(path)
    assert "horse" not in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="No such file"):
        read_credentials(tmp_path / "missing.json")
