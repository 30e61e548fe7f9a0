"""The simulated Redfish service as its clients speak to it: systems, and a pool of resource blocks."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from kit.clocks import SteppedClock
from kit.fabrics import MODEL, ServedFabric, fabric, machine, served_fabric
from kit.waiting import until

API = "redfish/v1"
Json = dict[str, object]


@pytest.fixture
async def east() -> AsyncIterator[ServedFabric]:
    async with served_fabric(fabric(driver="sunfish")) as one:
        yield one


async def gpus(east: ServedFabric, index: int = 1) -> list[dict[str, object]]:
    answer = await east.http.get(f"{API}/Systems/{machine(index)}/Processors", params={"$expand": "."})
    return [one for one in answer.json()["Members"] if one["ProcessorType"] == "GPU"]


async def blocks(east: ServedFabric, state: str) -> list[str]:
    answer = await east.http.get(f"{API}/CompositionService/ResourceBlocks", params={"$expand": "."})
    return [
        one["@odata.id"] for one in answer.json()["Members"] if one["CompositionStatus"]["CompositionState"] == state
    ]


def more(model: str = MODEL, count: int = 1) -> Json:
    return {"Processors": {"Members": [{"@Redfish.RequestCount": count, "ProcessorType": "GPU", "Model": model}]}}


async def patch(east: ServedFabric, body: Json, index: int = 1, **headers: str) -> httpx.Response:
    return await east.http.patch(f"{API}/Systems/{machine(index)}", json=body, headers=headers)


async def linked(east: ServedFabric, index: int = 1) -> list[Json]:
    found = (await east.http.get(f"{API}/Systems/{machine(index)}")).json()["Links"]["ResourceBlocks"]
    assert isinstance(found, list)
    return found


async def test_the_service_is_found_from_its_root(east: ServedFabric) -> None:
    root = (await east.http.get(API)).json()
    host = east.url.rsplit("/", 1)[0]
    systems = (await east.http.get(host + root["Systems"]["@odata.id"])).json()
    assert systems["Members@odata.count"] == 4
    system = (await east.http.get(host + systems["Members"][0]["@odata.id"])).json()
    processors = (await east.http.get(host + system["Processors"]["@odata.id"])).json()
    kinds = [(await east.http.get(host + one["@odata.id"])).json()["ProcessorType"] for one in processors["Members"]]
    assert kinds == ["CPU", "GPU"]
    service = (await east.http.get(host + root["CompositionService"]["@odata.id"])).json()
    pool = (await east.http.get(host + service["ResourceBlocks"]["@odata.id"])).json()
    assert pool["Members@odata.count"] == 9
    assert (await east.http.get(host + pool["Members"][0]["@odata.id"])).status_code == 200


async def test_a_request_for_a_model_adds_a_device_of_it(east: ServedFabric) -> None:
    before = await blocks(east, "Unused")
    answer = await patch(east, more())
    assert answer.status_code == 200
    assert len(answer.json()["Links"]["ResourceBlocks"]) == 2
    new = (await gpus(east))[-1]
    assert new["Model"] == MODEL
    assert str(new["SerialNumber"]).startswith("GPU-")
    assert len(await blocks(east, "Unused")) == len(before) - 1


async def test_the_operators_own_request_names_the_machine_in_its_body(east: ServedFabric) -> None:
    answer = await east.http.patch(f"{API}/Systems/System", json={"Name": machine(2), **more()})
    assert answer.status_code == 200
    assert len(await gpus(east, 2)) == 2


async def test_a_list_of_blocks_makes_devices_come_and_go(east: ServedFabric) -> None:
    free = (await blocks(east, "Unused"))[0]
    answer = await patch(east, {"Links": {"ResourceBlocks": [{"@odata.id": free}]}})
    assert answer.status_code == 200
    assert await linked(east) == [{"@odata.id": free}]
    assert len(await gpus(east)) == 1
    assert len(await blocks(east, "Unused")) == 7


async def test_one_device_can_be_taken_away(east: ServedFabric) -> None:
    [standing] = await gpus(east)
    path = f"{API}/Systems/{machine(1)}/Processors/{standing['Id']}"
    assert (await east.http.delete(path)).status_code == 204
    assert await gpus(east) == []
    assert (await east.http.delete(path)).status_code == 404


async def test_memory_is_composed_as_processors_are(east: ServedFabric) -> None:
    asked = {"Memory": {"Members": [{"@Redfish.RequestCount": 1, "MemoryType": "CXL", "Model": "CXL-128G"}]}}
    assert (await patch(east, asked)).status_code == 200
    members = await east.http.get(f"{API}/Systems/{machine(1)}/Memory", params={"$expand": "."})
    [memory] = members.json()["Members"]
    assert (memory["Model"], memory["CapacityMiB"]) == ("CXL-128G", 131_072)


async def test_a_block_on_its_way_is_composing_and_counts_as_the_systems() -> None:
    clock = SteppedClock()
    async with served_fabric(fabric(), clock=clock) as east:
        call = asyncio.create_task(patch(east, more()))
        await until(lambda: clock.waiting)
        assert len(await blocks(east, "Composing")) == 1
        assert len(await linked(east)) == 2
        assert len(await gpus(east)) == 1
        clock.advance(1)
        assert (await call).status_code == 200
        assert len(await blocks(east, "Composing")) == 0


async def test_a_block_that_is_being_taken_away_is_no_more_the_systems() -> None:
    clock = SteppedClock()
    async with served_fabric(fabric(), clock=clock) as east:
        call = asyncio.create_task(patch(east, {"Links": {"ResourceBlocks": []}}))
        await until(lambda: clock.waiting)
        assert await linked(east) == []
        assert len(await gpus(east)) == 1
        clock.advance(1)
        assert (await call).status_code == 200
        assert await gpus(east) == []


async def test_a_system_that_changed_since_it_was_read_is_not_changed(east: ServedFabric) -> None:
    read = (await east.http.get(f"{API}/Systems/{machine(1)}")).headers["ETag"]
    assert (await patch(east, more(), **{"If-Match": read})).status_code == 200
    answer = await patch(east, {"Links": {"ResourceBlocks": []}}, **{"If-Match": read})
    assert answer.status_code == 412
    assert len(await gpus(east)) == 2


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (more("B200"), "B200"),
        (more(count=0), "RequestCount"),
        ({"Links": {"ResourceBlocks": [{"@odata.id": "/redfish/v1/CompositionService/ResourceBlocks/x"}]}}, "'x'"),
    ],
)
async def test_what_cannot_be_is_refused_in_redfishs_words(east: ServedFabric, body: Json, said: str) -> None:
    answer = await patch(east, body)
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]
    assert answer.json()["error"]["code"].startswith("Base.1.0.")


async def test_what_is_not_there_is_not_found(east: ServedFabric) -> None:
    for path in ("Systems/elsewhere", f"Systems/{machine(1)}/Fans", "CompositionService/ResourceBlocks/elsewhere"):
        assert (await east.http.get(f"{API}/{path}")).status_code == 404
