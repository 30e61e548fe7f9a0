"""What the services say before a stack starts: who they are, and whether they can work with its settings."""

from pathlib import Path

import pytest

from muster.bus.settings import Settings
from muster.stack.declared import SERVICES, DeclarationError, declared_users


def settings(directory: Path, *, fabric: str) -> Settings:
    flex = {"name": "flex", "composable": True, "fabric": fabric, "nodes_max": 2, "gpus_max": 4, "gpu_models": ["H100"]}
    values = {"state_dir": directory, "credentials_dir": directory, "scaling": {"groups": [flex]}}
    return Settings.model_validate({**values, "fabrics": [{"name": "rack7", "url": "http://127.0.0.1:1"}]})


async def test_every_service_of_a_stack_becomes_a_user(tmp_path: Path) -> None:
    users = await declared_users(SERVICES, settings(tmp_path, fabric="rack7"))
    assert {user.name for user in users} >= set(SERVICES)


async def test_settings_that_cannot_be_are_told_before_anything_starts_and_name_the_field(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"scaling\.groups\[flex\]\.fabric.*rack9"):
        await declared_users(SERVICES, settings(tmp_path, fabric="rack9"))
