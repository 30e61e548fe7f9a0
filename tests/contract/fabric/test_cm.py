"""The driver of Fsas' Cluster Manager, and what only it does."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from contract.fabric.suite import UNKNOWN, LoginContract
from fabrics import MODEL, ServedFabric, machine
from muster.fabric.driver import DetachOrder, FabricRefusedError, FabricUnavailableError
from waiting import until


class TestClusterManager(LoginContract):
    name = "cm"

    async def test_resizes_of_one_machine_in_both_directions_do_not_mix_up(self, east: ServedFabric) -> None:
        [device] = self.standing(east, 1)
        async with self.driving(east) as driver:
            outcomes = await asyncio.gather(
                driver.attach(self.order(1)),
                driver.detach(DetachOrder(machine(1), device.device_id)),
                driver.attach(self.order(1)),
                driver.attach(self.order(1)),
            )
        assert outcomes[1] is True
        assert len(self.standing(east, 1)) == 3
        assert device not in self.standing(east, 1)
        assert len(east.manager.model.operations()) == 4

    async def test_of_two_calls_side_by_side_the_one_that_fails_does_not_end_with_the_others_device(
        self, east: ServedFabric
    ) -> None:
        async with self.driving(east, call_s=2.0) as driver:
            good = asyncio.create_task(driver.attach(self.order()))
            await until(lambda: east.manager.model.running)
            self.behave(east, half_share=1.0)
            bad = asyncio.create_task(driver.attach(self.order()))
            outcomes = await asyncio.gather(good, bad, return_exceptions=True)
        assert sum(isinstance(outcome, UNKNOWN) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, tuple) for outcome in outcomes) == 1

    async def test_more_than_a_machine_may_have_is_refused_before_it_is_asked_for(self, east: ServedFabric) -> None:
        east.manager.machines[machine(1)] = replace(east.manager.machines[machine(1)], gpus_max=1)
        async with self.driving(east) as driver:
            with pytest.raises(FabricRefusedError, match="max_resspec_count"):
                await driver.attach(self.order(1))
        assert east.manager.model.operations() == ()

    async def test_a_count_that_moved_meanwhile_changed_nothing(self, tmp_path: Path) -> None:
        async def say(request: Request) -> Response:
            if request.method == "POST":
                detail = {"code": "CountConflict", "message": "it is 4 now"}
                return JSONResponse({"status": 409, "detail": detail}, 409)
            conditions = [{"column": "model", "operator": "eq", "value": MODEL}]
            spec = {
                "spec_uuid": "s1",
                "type": "gpu",
                "selector": {"expression": {"conditions": conditions}},
                "device_count": 3,
            }
            return JSONResponse({"data": {"cluster": {"machine": {"resspecs": [spec]}}}})

        async with self.stub(tmp_path, say) as driver:
            with pytest.raises(FabricUnavailableError, match="CountConflict"):
                await driver.attach(self.order(1))
