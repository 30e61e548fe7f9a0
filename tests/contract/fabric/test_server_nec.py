"""The simulated NEC manager as its clients speak to it: resources, nodes, and one layout at a time."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from kit.clocks import SteppedClock
from kit.fabrics import MODEL, ServedFabric, fabric, machine, served_fabric
from kit.waiting import until, until_async

API = "cdim/api/v1"
Json = dict[str, object]


class Cdim:
    """What a client does; time passes only by `advance`."""

    def __init__(self, east: ServedFabric, clock: SteppedClock) -> None:
        self.east = east
        self.http = east.http
        self.clock = clock

    async def free(self) -> list[str]:
        """GPUs that no node has."""
        found = (await self.http.get(f"{API}/resources", params={"detail": "true"})).json()["resources"]
        return [one["device"]["deviceID"] for one in found if one["device"]["type"] == "GPU" and not one["nodeIDs"]]

    async def gpus(self, index: int = 1) -> list[str]:
        """GPUs of a node."""
        nodes = (await self.http.get(f"{API}/nodes", params={"detail": "true"})).json()["nodes"]
        [node] = [one for one in nodes if one["id"] == machine(index)]
        devices = [one["device"] for one in node["resources"]]
        assert [one["deviceID"] for one in devices if one["type"] == "CPU"] == [machine(index)]
        return [one["deviceID"] for one in devices if one["type"] == "GPU"]

    async def apply(self, *procedures: Json) -> httpx.Response:
        return await self.http.post(f"{API}/layout-apply", json={"procedures": list(procedures)})

    async def status(self, apply_id: str) -> dict[str, object]:
        found = (await self.http.get(f"{API}/layout-apply/{apply_id}")).json()
        assert isinstance(found, dict)
        return found

    async def ended(self, apply_id: str) -> dict[str, object]:
        """Its last word, when the switches that it waits for are done."""
        await until(lambda: self.clock.waiting)
        self.clock.advance(31)

        async def is_over() -> bool:
            return (await self.status(apply_id))["status"] != "IN_PROGRESS"

        await until_async(is_over)
        return await self.status(apply_id)


def step(number: int, operation: str, device: str, *, index: int = 1, after: tuple[int, ...] = ()) -> Json:
    return {
        "operationID": number,
        "operation": operation,
        "sourceDeviceID": machine(index),
        "destinationDeviceID": device,
        "dependencies": list(after),
    }


@pytest.fixture
async def cdim() -> AsyncIterator[Cdim]:
    clock = SteppedClock()
    async with served_fabric(fabric(driver="nec", switch_median_s=30), clock=clock) as east:
        yield Cdim(east, clock)


async def test_a_resource_shows_its_model_and_the_uuid_of_its_gpu(cdim: Cdim) -> None:
    shown = (await cdim.http.get(f"{API}/resources/{(await cdim.free())[0]}")).json()
    assert shown["device"]["model"] == MODEL
    assert shown["device"]["serialNumber"].startswith("GPU-")
    assert shown["device"]["status"] == {"state": "Enabled", "health": "OK"}
    counted = (await cdim.http.get(f"{API}/resources")).json()
    assert counted["count"] == len(counted["resources"])
    assert "model" not in counted["resources"][-1]["device"]


async def test_a_device_is_connected_when_its_layout_is_completed(cdim: Cdim) -> None:
    device = (await cdim.free())[0]
    answer = await cdim.apply(step(1, "connect", device))
    assert answer.status_code == 202
    apply_id = answer.json()["applyID"]
    running = await cdim.status(apply_id)
    assert running["status"] == "IN_PROGRESS"
    assert set(running) == {"applyID", "status", "startedAt"}
    assert device not in await cdim.gpus()
    ended = await cdim.ended(apply_id)
    assert ended["status"] == "COMPLETED"
    assert ended["applyResult"] == [{"operationID": 1, "status": "COMPLETED"}]
    assert device in await cdim.gpus()


async def test_a_device_is_disconnected_by_the_older_names_too(cdim: Cdim) -> None:
    [device] = await cdim.gpus()
    procedure = {
        "operationID": 1,
        "operation": "disconnect",
        "targetCPUID": machine(1),
        "targetDeviceID": device,
        "dependencies": [],
    }
    assert (await cdim.ended((await cdim.apply(procedure)).json()["applyID"]))["status"] == "COMPLETED"
    assert await cdim.gpus() == []


async def test_one_layout_runs_at_a_time(cdim: Cdim) -> None:
    first, second, *_ = await cdim.free()
    apply_id = (await cdim.apply(step(1, "connect", first))).json()["applyID"]
    refused = await cdim.apply(step(1, "connect", second))
    assert refused.status_code == 409
    assert refused.json()["code"] == "E40010"
    await cdim.ended(apply_id)
    assert (await cdim.apply(step(1, "connect", second))).status_code == 202


async def test_a_device_moves_between_nodes_in_the_order_of_dependencies(cdim: Cdim) -> None:
    [device] = await cdim.gpus()
    answer = await cdim.apply(
        step(1, "disconnect", device), step(2, "connect", device, index=3, after=(1,)), step(3, "boot", machine(3))
    )
    apply_id = answer.json()["applyID"]
    await until(lambda: cdim.clock.waiting)
    cdim.clock.advance(31)
    assert (await cdim.ended(apply_id))["status"] == "COMPLETED"
    assert await cdim.gpus(3) == [device]


async def test_what_depends_on_a_failure_is_skipped(cdim: Cdim) -> None:
    [elsewhere] = await cdim.gpus(2)
    free = (await cdim.free())[0]
    answer = await cdim.apply(
        step(1, "connect", elsewhere), step(2, "connect", free, after=(1,)), step(3, "connect", free)
    )
    ended = await cdim.ended(answer.json()["applyID"])
    assert ended["status"] == "FAILED"
    results = {one["operationID"]: one["status"] for one in ended["applyResult"]}  # type: ignore[attr-defined]
    assert results == {1: "FAILED", 2: "SKIPPED", 3: "COMPLETED"}


@pytest.mark.parametrize(
    "procedures",
    [
        [{"operationID": 1, "operation": "explode"}],
        [step(1, "connect", "a", after=(2,)), step(2, "connect", "b")],
        [step(1, "connect", "a"), step(1, "connect", "b")],
    ],
)
async def test_a_layout_that_makes_no_sense_is_refused(cdim: Cdim, procedures: list[Json]) -> None:
    answer = await cdim.apply(*procedures)
    assert answer.status_code == 400
    assert answer.json()["code"] == "E40001"


async def test_what_is_not_there_is_not_found(cdim: Cdim) -> None:
    assert (await cdim.http.get(f"{API}/layout-apply/00000000ff")).json()["code"] == "E40020"
    assert (await cdim.http.get(f"{API}/resources/elsewhere")).status_code == 404
    assert (await cdim.http.get(f"{API}/nodes/elsewhere")).status_code == 404


@pytest.mark.parametrize(("shares", "status"), [({"half_share": 1}, "FAILED"), ({"twice_share": 1}, "COMPLETED")])
async def test_hardware_that_fails_fails_the_layout(shares: dict[str, float], status: str) -> None:
    clock = SteppedClock()
    async with served_fabric(fabric(**shares), clock=clock) as east:
        cdim = Cdim(east, clock)
        answer = await cdim.apply(step(1, "connect", (await cdim.free())[0]))
        assert (await cdim.ended(answer.json()["applyID"]))["status"] == status


async def test_a_manager_that_is_not_ready_begins_nothing() -> None:
    async with served_fabric(fabric(refuse_share=1), clock=SteppedClock()) as east:
        answer = await east.http.post(
            f"{API}/layout-apply",
            json={"procedures": [step(1, "disconnect", east.manager.model.on_machine(machine(1))[0].device_id)]},
        )
        assert answer.status_code == 503
        assert (await east.http.get(f"{API}/layout-apply")).json()["count"] == 0


async def test_nonsense_hides_a_layout_that_runs() -> None:
    clock = SteppedClock()
    async with served_fabric(fabric(nonsense_share=1), clock=clock) as east:
        cdim = Cdim(east, clock)
        answer = await cdim.apply(step(1, "connect", (await cdim.free())[0]))
        with pytest.raises(json.JSONDecodeError):
            answer.json()
        clock.advance(1)
        await until(lambda: len(east.manager.model.on_machine(machine(1))) == 2)


async def test_a_layout_that_ran_when_the_process_ended_has_failed_and_its_switch_goes_on(tmp_path: Path) -> None:
    path, clock = tmp_path / "east.json", SteppedClock()
    async with served_fabric(fabric(), path=path, clock=clock) as east:
        cdim = Cdim(east, clock)
        device = (await cdim.free())[0]
        apply_id = (await cdim.apply(step(1, "connect", device))).json()["applyID"]
    for task in east.manager.tasks:
        task.cancel()
    async with served_fabric(fabric(), path=path, clock=clock) as again:
        cdim = Cdim(again, clock)
        assert (await cdim.status(apply_id))["status"] == "FAILED"
        clock.advance(1)
        assert device in await cdim.gpus()
        assert (await cdim.apply(step(1, "boot", machine(1)))).status_code == 202
