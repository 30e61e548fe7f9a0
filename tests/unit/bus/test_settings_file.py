"""Where settings come from."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from muster.bus.settings import Settings, load_settings


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    settings = Settings(state_dir=tmp_path, credentials_dir=tmp_path / "creds", http_port=9000)
    (tmp_path / "settings.json").write_text(settings.model_dump_json())
    return tmp_path


def test_the_file_alone(state_dir: Path) -> None:
    assert load_settings(state_dir, {}).http_port == 9000


def test_variables_go_before_the_file(state_dir: Path) -> None:
    environment = {
        "MUSTER_HTTP_PORT": "9001",
        "MUSTER_BUS__LEASE_TTL_S": "7.5",
        "MUSTER_STATE_DIR": "/elsewhere",
        "MUSTER_TEAM": "not a setting",
    }
    settings = load_settings(state_dir, environment)
    assert (settings.http_port, settings.bus.lease_ttl_s) == (9001, 7.5)
    assert settings.state_dir == state_dir


def test_a_value_out_of_bounds_names_its_field(state_dir: Path) -> None:
    with pytest.raises(ValidationError, match="lease_ttl_s"):
        load_settings(state_dir, {"MUSTER_BUS__LEASE_TTL_S": "0"})
