"""The driver of Sunfish and what else composes by Redfish, and what only it does."""

from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from contract.fabric.suite import DriverContract
from kit.fabrics import MODEL
from muster.fabric.driver import AttachOrder, DetachOrder, FabricNonsenseError, FabricRefusedError, FabricTimeoutError
from muster.schemas.devices import GPU

SYSTEM = {"Id": "system-1"}
PROCESSOR = {"Id": "gpu-1", "ProcessorType": "GPU", "Model": MODEL, "SerialNumber": "GPU-1"}
BLOCK = {"CompositionStatus": {"CompositionState": "Unused"}, "Processors": [PROCESSOR]}


class TestRedfish(DriverContract):
    name = "sunfish"

    async def test_collections_are_read_over_all_pages_and_links_are_followed(self, tmp_path: Path) -> None:
        pages = {
            "/Systems": {"Members": [{"@odata.id": "/east/redfish/v1/Systems/system-1"}]},
            "/Systems/system-1": SYSTEM,
            "/Systems/system-1/Processors": {
                "Members": [PROCESSOR],
                "Members@odata.nextLink": "/redfish/v1/Systems/system-1/Processors?skip=1",
            },
            "/Systems/system-1/Processors?skip=1": {"Members": [{**PROCESSOR, "Id": "gpu-2"}]},
            "/Systems/system-1/Memory": {"Members": []},
            "/CompositionService/ResourceBlocks": {"Members": [BLOCK, BLOCK]},
        }

        async def say(request: Request) -> Response:
            path = request.url.path.removeprefix("/east/redfish/v1")
            query = "?skip=1" if "skip" in request.query_params else ""
            return JSONResponse(pages[path + query])

        async with self.stub(tmp_path, say) as driver:
            seen = await driver.survey()
        assert [device.device_id for device in seen.machines["system-1"]] == ["gpu-1", "gpu-2"]
        assert seen.free == {(GPU, MODEL): 2}

    @pytest.mark.parametrize(
        "link", ["http://elsewhere/redfish/v1/Systems/x", "//elsewhere/redfish/v1/x", "/admin", "/redfish/v1/../admin"]
    )
    async def test_a_link_that_leads_elsewhere_is_not_followed(self, tmp_path: Path, link: str) -> None:
        async def say(request: Request) -> Response:
            return JSONResponse({"Members": [{"@odata.id": link}]})

        async with self.stub(tmp_path, say) as driver:
            with pytest.raises(FabricNonsenseError, match="does not lead into"):
                await driver.survey()

    async def test_a_type_that_redfish_has_no_collection_for_is_refused(self, tmp_path: Path) -> None:
        async def say(request: Request) -> Response:
            raise AssertionError("nothing is asked")

        async with self.stub(tmp_path, say) as driver:
            with pytest.raises(FabricRefusedError, match="fpga"):
                await driver.attach(AttachOrder("system-1", MODEL, "fpga"))

    async def test_what_is_gone_is_not_asked_for(self, tmp_path: Path) -> None:
        methods: list[str] = []

        async def say(request: Request) -> Response:
            methods.append(request.method)
            return JSONResponse({"Members": []})

        async with self.stub(tmp_path, say) as driver:
            assert await driver.detach(DetachOrder("system-1", "gpu-1")) is False
        assert methods == ["GET"]

    async def test_what_was_composed_and_then_not_seen_is_unknown(self, tmp_path: Path) -> None:
        async def say(request: Request) -> Response:
            return Response(status_code=204 if request.method == "PATCH" else 503)

        async with self.stub(tmp_path, say) as driver:
            with pytest.raises(FabricTimeoutError, match="composed, but reading it failed"):
                await driver.attach(self.order())
