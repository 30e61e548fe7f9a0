"""The driver of Fsas' Fabric Manager, and what only it does."""

from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from contract.fabric.suite import LoginContract
from kit.fabrics import MODEL, ServedFabric, machine
from muster.fabric.driver import DetachOrder, FabricNonsenseError, FabricRefusedError, FabricTimeoutError
from muster.schemas.devices import GPU

DEVICE = {
    "res_uuid": "device-1",
    "res_name": MODEL,
    "res_type": GPU,
    "res_op_status": "00",
    "res_serial_num": "GPU-1",
}


def shows(*devices: dict[str, str]) -> JSONResponse:
    return JSONResponse({"data": {"machines": [{"mach_uuid": machine(1), "resources": list(devices)}]}})


class TestFabricManager(LoginContract):
    name = "fm"

    async def test_what_is_gone_is_not_asked_for(self, tmp_path: Path) -> None:
        methods: list[str] = []

        async def say(request: Request) -> Response:
            methods.append(request.method)
            return shows()

        async with self.stub(tmp_path, say) as driver:
            assert await driver.detach(DetachOrder(machine(1), "device-1")) is False
        assert methods == ["GET"]

    async def test_a_refusal_to_take_away_what_is_there_is_one(self, tmp_path: Path) -> None:
        async def say(request: Request) -> Response:
            detail = {"code": "E0042", "message": "powered on"}
            return shows(DEVICE) if request.method == "GET" else JSONResponse({"status": 400, "detail": detail}, 400)

        async with self.stub(tmp_path, say) as driver:
            with pytest.raises(FabricRefusedError, match="400 E0042: powered on"):
                await driver.detach(DetachOrder(machine(1), "device-1"))

    async def test_a_device_that_somebody_else_took_meanwhile_is_gone(self, tmp_path: Path) -> None:
        methods: list[str] = []

        async def say(request: Request) -> Response:
            methods.append(request.method)
            return (
                Response(status_code=404)
                if request.method == "DELETE"
                else shows(*([DEVICE] if len(methods) == 1 else []))
            )

        async with self.stub(tmp_path, say) as driver:
            assert await driver.detach(DetachOrder(machine(1), "device-1")) is False
        assert methods == ["GET", "DELETE", "GET"]

    @pytest.mark.parametrize(
        ("status", "error"), [(500, FabricNonsenseError), (502, FabricNonsenseError), (504, FabricTimeoutError)]
    )
    async def test_a_server_error_to_a_change_may_hide_work(
        self, tmp_path: Path, status: int, error: type[Exception]
    ) -> None:
        async def say(request: Request) -> Response:
            return Response(status_code=status)

        async with self.stub(tmp_path, say) as driver:
            with pytest.raises(error):
                await driver.attach(self.order(1))

    async def test_a_connection_that_breaks_may_hide_work(self, tmp_path: Path) -> None:
        async def vanish(request: Request) -> Response:
            raise ConnectionResetError

        async with self.stub(tmp_path, vanish) as driver:
            with pytest.raises((FabricTimeoutError, FabricNonsenseError)):
                await driver.attach(self.order(1))

    async def test_success_without_the_device_is_nonsense(self, tmp_path: Path) -> None:
        async def say(request: Request) -> Response:
            return shows()

        async with self.stub(tmp_path, say) as driver:
            with pytest.raises(FabricNonsenseError, match="success, but no gpu"):
                await driver.attach(self.order(1))

    async def test_machines_that_the_list_shows_without_devices_are_asked_one_by_one(
        self, east: ServedFabric, tmp_path: Path
    ) -> None:
        whole = east.manager.model.inventory().machines

        async def say(request: Request) -> Response:
            name = request.url.path.rsplit("/", 1)[-1]
            if name == "machines":
                return JSONResponse({"data": {"machines": [{"mach_uuid": one} for one in whole]}})
            if name == "available-reserved-resources":
                return JSONResponse({"reserved_res_num_per_fabric": 7})
            resources = [{**DEVICE, "res_uuid": f"on-{name}"}]
            return JSONResponse({"data": {"machines": [{"mach_uuid": name, "resources": resources}]}})

        async with self.stub(tmp_path, say) as driver:
            seen = await driver.survey()
        assert {name: [one.device_id for one in devices] for name, devices in seen.machines.items()} == {
            name: [f"on-{name}"] for name in whole
        }
        assert set(seen.free.values()) == {7}
