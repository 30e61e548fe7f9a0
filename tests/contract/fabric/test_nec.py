"""The driver of NEC CDIM's layout-apply, and what only it does."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from contract.fabric.suite import DriverContract
from kit.fabrics import MODEL, ServedFabric, machine
from muster.fabric.driver import FabricError, FabricNonsenseError, FabricUnavailableError


class TestLayoutApply(DriverContract):
    name = "nec"
    twice_brings = 1

    async def test_while_another_layout_is_applied_nothing_is_begun(self, east: ServedFabric) -> None:
        async with self.driving(east) as driver:
            assert driver.parallel_max == 1
            outcomes = await asyncio.gather(
                driver.attach(self.order()), driver.attach(self.order(4)), return_exceptions=True
            )
        [refused] = [one for one in outcomes if isinstance(one, BaseException)]
        assert isinstance(refused, FabricUnavailableError)
        assert "409 E40010" in str(refused)
        assert len(self.standing(east, 3)) + len(self.standing(east, 4)) == 1

    @pytest.mark.parametrize(
        ("status", "rollback", "error"),
        [
            ("FAILED", "COMPLETED", FabricUnavailableError),
            ("CANCELED", "COMPLETED", FabricUnavailableError),
            ("FAILED", "", FabricNonsenseError),
            ("FAILED", "FAILED", FabricNonsenseError),
            ("SUSPENDED", "", FabricNonsenseError),
            ("FORGOTTEN", "", FabricNonsenseError),
        ],
    )
    async def test_only_a_layout_that_was_rolled_back_changed_nothing(
        self, tmp_path: Path, status: str, rollback: str, error: type[FabricError]
    ) -> None:
        async with self.stub(
            tmp_path, a_manager_whose_layouts_end({"status": status, "rollbackStatus": rollback})
        ) as driver:
            with pytest.raises(error, match=status):
                await driver.attach(self.order())

    async def test_a_layout_that_is_rolled_back_is_waited_for(self, tmp_path: Path) -> None:
        ends = [
            {"status": "FAILED", "rollbackStatus": "IN_PROGRESS"},
            {"status": "FAILED", "rollbackStatus": "COMPLETED"},
        ]
        async with self.stub(tmp_path, a_manager_whose_layouts_end(*ends)) as driver:
            with pytest.raises(FabricUnavailableError, match="no change was applied"):
                await driver.attach(self.order())

    async def test_a_layout_that_is_not_known_any_more_may_have_been_applied(self, tmp_path: Path) -> None:
        async with self.stub(tmp_path, a_manager_whose_layouts_end()) as driver:
            with pytest.raises(FabricNonsenseError, match="E40020"):
                await driver.attach(self.order())


def a_manager_whose_layouts_end(*ends: dict[str, str]) -> Callable[[Request], Awaitable[Response]]:
    """Each look at a layout shows the next of `ends`, then it is not known any more."""
    left = list(ends)
    cpu = {"device": {"deviceID": "cpu-1", "type": "CPU"}}
    gpu = {"device": {"deviceID": "gpu-1", "type": "GPU", "model": MODEL}, "nodeIDs": []}

    async def say(request: Request) -> Response:
        match request.url.path.rsplit("/", 1)[-1], request.method:
            case "nodes", _:
                return JSONResponse({"nodes": [{"id": machine(3), "resources": [cpu]}]})
            case "resources", _:
                return JSONResponse({"resources": [gpu]})
            case "layout-apply", "POST":
                return JSONResponse({"applyID": "a1"}, 202)
            case _:
                if left:
                    return JSONResponse(left.pop(0))
                return JSONResponse({"code": "E40020", "message": "not found"}, 404)

    return say
