"""From the settings to what makes the calls."""

import asyncio
from pathlib import Path
from typing import cast

import pytest
from nats.aio.client import Client

from muster.bus.service import LeaderHandle
from muster.bus.settings import FabricSettings, Settings
from muster.composer.app import fabric_calls, models_of
from muster.composer.core.fabrics import SurveyWentWrong
from muster.core import Instant
from muster.core.fact import Core
from muster.core.settings import GroupSettings, SimulatedFabricSettings
from muster.fabric.driver import FabricUnavailableError
from muster.fabric.open import UnopenedDriver
from muster.schemas.devices import CXL_MEMORY, GPU
from muster.schemas.facts.device import CallFailure


def settings(tmp_path: Path, *fabrics: FabricSettings) -> Settings:
    return Settings(state_dir=tmp_path, credentials_dir=tmp_path, fabrics=fabrics)


def test_a_pool_is_asked_for_what_its_groups_take_and_what_was_put_there() -> None:
    groups = (
        GroupSettings(name="one", fabric="east", gpu_models=("A100", "L40S")),
        GroupSettings(name="two", fabric="west", gpu_models=("H100",)),
    )
    simulated = SimulatedFabricSettings(pool={"T4": 1, "A100": 2}, memory_pool={"CXL-1": 1})
    fabric = FabricSettings(name="east", memory_models=("CXL-2",), simulated=simulated)
    assert models_of(fabric, groups) == (
        (GPU, "A100"), (GPU, "L40S"), (GPU, "T4"), (CXL_MEMORY, "CXL-2"), (CXL_MEMORY, "CXL-1")
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fabric", "why"),
    [
        (FabricSettings(name="east"), "url is empty"),
        (FabricSettings(name="east", url="http://127.0.0.1:1", credentials=Path("/nowhere.json")), "nowhere.json"),
    ],
)
async def test_a_fabric_that_cannot_be_opened_says_why_and_stops_nobody(
    tmp_path: Path, fabric: FabricSettings, why: str
) -> None:
    calls = fabric_calls(settings(tmp_path, fabric))
    woken = asyncio.Event()
    await calls.open(cast("Core", None), cast("Client", None), LeaderHandle(woken.set, lambda: True))
    calls.ask_survey("east", Instant(0))
    await calls.after_fold((), last_seq=0, now=Instant(1))
    await woken.wait()
    [look] = calls.observe(Instant(1))
    assert isinstance(look, SurveyWentWrong)
    assert look.failure is CallFailure.UNAVAILABLE
    assert why in look.error
    await calls.close()


async def test_a_driver_that_was_not_opened_sends_nothing() -> None:
    driver = UnopenedDriver("url is empty")
    with pytest.raises(FabricUnavailableError, match="url is empty"):
        await driver.survey()
