"""The override for a real cluster, as compose itself understands it together with the stack."""

import json
import subprocess
from pathlib import Path
from typing import cast

import pytest

from compose.project import COMPOSE_FILE
from compose.running import Stack

OVERRIDE = COMPOSE_FILE.with_name("compose.kubernetes.yaml")

pytestmark = pytest.mark.timeout(3_000)


def config(stack: Stack, **environment: str) -> subprocess.CompletedProcess[str]:
    argv = (*stack.project.command, "--file", str(COMPOSE_FILE), "--file", str(OVERRIDE), "config", "--format", "json")
    return subprocess.run(
        argv, env={**stack.project.environment, **environment}, capture_output=True, text=True, check=False, timeout=60
    )


def volumes(stack: Stack, kubeconfig: Path) -> dict[str, dict[str, dict[str, object]]]:
    """By service and place in the container."""
    said = config(stack, KUBECONFIG_FILE=str(kubeconfig))
    assert said.returncode == 0, said.stderr
    services = cast("dict[str, dict[str, list[dict[str, object]]]]", json.loads(said.stdout)["services"])
    return {
        name: {str(volume["target"]): volume for volume in service.get("volumes", [])}
        for name, service in services.items()
    }


def test_agent_and_guard_keep_their_credentials_and_see_the_kubeconfig(stack: Stack, tmp_path: Path) -> None:
    found = volumes(stack, tmp_path / "kubeconfig")
    for name in ("agent", "guard"):
        assert set(found[name]) == {"/var/lib/muster", "/etc/muster/kubeconfig"}
        assert found[name]["/etc/muster/kubeconfig"]["source"] == str(tmp_path / "kubeconfig")
        assert found[name]["/etc/muster/kubeconfig"]["read_only"] is True
    assert [name for name, places in found.items() if "/etc/muster/kubeconfig" in places] == ["agent", "guard"]


def test_the_settings_of_a_real_cluster_take_the_place_of_the_simulated_ones(stack: Stack, tmp_path: Path) -> None:
    settings = volumes(stack, tmp_path / "kubeconfig")["init"]["/etc/muster/settings.yaml"]
    assert Path(str(settings["source"])).name == "settings.kubernetes.yaml"


def test_without_a_kubeconfig_compose_says_what_is_missing(stack: Stack) -> None:
    said = config(stack)
    assert said.returncode != 0
    assert "name the kubeconfig of the cluster" in said.stderr
