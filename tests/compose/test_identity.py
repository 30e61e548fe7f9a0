"""The override for TLS and an identity provider, as compose itself understands it together with the stack."""

import json
import subprocess
from pathlib import Path
from typing import cast

import pytest

from compose.project import COMPOSE_FILE, Project

OVERRIDE = COMPOSE_FILE.with_name("compose.identity.yaml")

pytestmark = pytest.mark.timeout(3_000)


def config(project: Project, **environment: str) -> subprocess.CompletedProcess[str]:
    argv = (*project.command, "--file", str(COMPOSE_FILE), "--file", str(OVERRIDE), "config", "--format", "json")
    return subprocess.run(
        argv, env={**project.environment, **environment}, capture_output=True, text=True, check=False, timeout=60
    )


def services(project: Project, tls: Path) -> dict[str, dict[str, object]]:
    said = config(project, TLS_DIR=str(tls))
    assert said.returncode == 0, said.stderr
    return cast("dict[str, dict[str, object]]", json.loads(said.stdout)["services"])


def sources(service: dict[str, object]) -> dict[str, str]:
    """Of what is mounted, by the place in the container."""
    volumes = cast("list[dict[str, object]]", service.get("volumes", []))
    return {str(volume["target"]): str(volume["source"]) for volume in volumes}


def test_the_gateway_gets_the_directory_and_keeps_its_own_part(project: Project, tmp_path: Path) -> None:
    found = services(project, tmp_path)
    assert sources(found["gateway"])["/etc/muster/tls"] == str(tmp_path)
    assert "/var/lib/muster" in sources(found["gateway"])
    assert [name for name, service in found.items() if str(tmp_path) in sources(service).values()] == ["gateway"]
    assert sources(found["queues"])["/etc/muster/tls/ca.crt"] == str(tmp_path / "ca.crt")


def test_the_settings_with_identity_take_the_place_of_the_usual_ones(project: Project, tmp_path: Path) -> None:
    init = services(project, tmp_path)["init"]
    assert Path(sources(init)["/etc/muster/settings.yaml"]).name == "settings.identity.yaml"
    variables = cast("dict[str, str]", init["environment"])
    assert variables["MUSTER_INIT_HTTP_URL"] == f"https://127.0.0.1:{project.ports['HTTP_PORT']}"


def test_without_a_directory_compose_says_what_is_missing(project: Project) -> None:
    said = config(project)
    assert said.returncode != 0
    assert "name the directory with tls.crt, tls.key and ca.crt" in said.stderr
