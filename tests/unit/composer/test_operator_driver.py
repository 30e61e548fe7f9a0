"""The driver of a fabric that the field's operator moves waits for what the agent tells."""

import asyncio

import pytest

from muster.composer.app import FREE_UNKNOWN, OperatorDriver
from muster.fabric.driver import AttachOrder, DetachOrder, FabricTimeoutError, FabricUnavailableError
from muster.schemas.devices import GPU
from muster.schemas.facts.fabric import OperatorDevice, OperatorSeen

MODEL = "A100"


class Told:
    """What the agent told last."""

    def __init__(self, *, call_s: float = 5.0) -> None:
        self.seen: OperatorSeen | None = OperatorSeen()
        self.driver = OperatorDriver(lambda: self.seen, models=((GPU, MODEL),), call_s=call_s)

    def have(self, *numbers: int, state: str = "Online", error: str = "") -> None:
        self.seen = OperatorSeen(
            devices=tuple(
                OperatorDevice(
                    name=f"gpu-{number}", node="n1", model=MODEL, state=state, device_uuid=f"GPU-{number}",
                    device_id=f"res-{number}", error=error,
                )
                for number in numbers
            )
        )  # fmt: skip


async def test_an_attach_ends_when_one_more_is_online() -> None:
    told = Told()
    told.have(1)
    task = asyncio.create_task(told.driver.attach(AttachOrder("n1", MODEL)))
    await asyncio.sleep(0)
    told.have(1, 2)
    assert [one.device_uuid for one in await task] == ["GPU-1", "GPU-2"]


async def test_two_attaches_need_two_devices() -> None:
    told = Told()
    tasks = [asyncio.create_task(told.driver.attach(AttachOrder("n1", MODEL))) for _ in range(2)]
    await asyncio.sleep(0)
    told.have(1)
    done, waiting = await asyncio.wait(tasks, timeout=1, return_when=asyncio.FIRST_COMPLETED)
    assert (len(done), len(waiting)) == (1, 1)
    told.have(1, 2)
    await asyncio.wait(tasks)
    assert len(tasks[0].result()) + len(tasks[1].result()) == 3


async def test_a_device_that_is_not_online_has_not_come() -> None:
    told = Told(call_s=0.3)
    told.have(1, state="Attaching", error="no free device")
    with pytest.raises(FabricTimeoutError, match="no free device"):
        await told.driver.attach(AttachOrder("n1", MODEL))


async def test_a_detach_ends_when_the_device_is_gone() -> None:
    told = Told()
    told.have(1, 2)
    task = asyncio.create_task(told.driver.detach(DetachOrder("n1", "res-1")))
    await asyncio.sleep(0)
    told.have(2)
    assert await task is True
    assert await told.driver.detach(DetachOrder("n1", "res-1")) is False


async def test_a_survey_shows_what_is_online() -> None:
    told = Told()
    told.have(1, 2)
    found = await told.driver.survey()
    assert [one.device_id for one in found.machines["n1"]] == ["res-1", "res-2"]
    assert found.free == {(GPU, MODEL): FREE_UNKNOWN}


async def test_before_anything_was_told_nothing_is_known() -> None:
    told = Told()
    told.seen = None
    with pytest.raises(FabricUnavailableError):
        await told.driver.survey()
