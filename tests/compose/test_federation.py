"""The override for a federation, as compose itself understands it together with the stack."""

import json
import subprocess
from typing import cast

import pytest

from compose.project import COMPOSE_FILE
from compose.running import Stack

OVERRIDE = COMPOSE_FILE.with_name("compose.federation.yaml")

pytestmark = pytest.mark.timeout(3_000)


def test_the_centre_and_two_cells_are_what_compose_would_start(stack: Stack) -> None:
    argv = (*stack.project.command, "--file", str(COMPOSE_FILE), "--file", str(OVERRIDE), "config", "--format", "json")
    environment = {**stack.project.environment, "COMPOSE_PROFILES": ""}
    said = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert said.returncode == 0, said.stderr
    services = cast("dict[str, dict[str, object]]", json.loads(said.stdout)["services"])
    assert {"gateway", "federation", "projector", "notifier"} <= set(services)
    assert "scheduler" not in services
    for cell in ("east", "west"):
        assert {cell, f"nats-{cell}", f"bus-{cell}", f"init-{cell}", f"exporters-{cell}"} <= set(services)
    (mounted,) = (
        volume
        for volume in cast("list[dict[str, str]]", services["init"]["volumes"])
        if volume["target"] == "/etc/muster/settings.yaml"
    )
    assert mounted["source"].endswith("settings.centre.yaml"), "the centre's settings take the place of the stack's"
