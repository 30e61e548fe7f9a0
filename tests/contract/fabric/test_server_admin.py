"""The simulator's own pages: what truly is, what was done for which trace, and how it shall behave."""

import asyncio

import httpx
import pytest

from kit.clocks import SteppedClock
from kit.fabrics import GROUPS, MODEL, ServedFabric, fabric, machine, served_fabric
from kit.loopback import served
from kit.waiting import until
from muster.fabric.simulator.routing import TRACE_CHARS_MAX
from muster.fabric.simulator.server import make_app, open_manager

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def attach(east: ServedFabric, index: int = 1, **headers: str) -> httpx.Response:
    request = {"@Redfish.RequestCount": 1, "ProcessorType": "GPU", "Model": MODEL}
    body = {"Processors": {"Members": [request]}}
    return await east.http.patch(f"redfish/v1/Systems/{machine(index)}", json=body, headers=headers)


async def test_the_inventory_says_where_every_device_is() -> None:
    async with served_fabric(fabric()) as east:
        await attach(east, 3)
        held = (await east.http.get("_inventory")).json()
        assert {"type": "gpu", "model": MODEL, "count": 3} in held["free"]
        assert [len(held["machines"][machine(index)]) for index in (1, 2, 3, 4)] == [1, 1, 1, 0]
        assert held["moving"] == {}


async def test_an_operation_carries_the_trace_of_the_call_that_began_it() -> None:
    async with served_fabric(fabric()) as east:
        await attach(east, traceparent=TRACE)
        await attach(east)
        newest, traced = (await east.http.get("_operations")).json()["operations"]
        assert traced["traceparent"] == TRACE
        assert (traced["kind"], traced["state"], traced["machine"]) == ("attach", "done", machine(1))
        assert newest["traceparent"] == ""


async def test_a_trace_that_is_none_is_kept_short() -> None:
    async with served_fabric(fabric()) as east:
        await attach(east, traceparent="x" * 10_000)
        [operation] = (await east.http.get("_operations")).json()["operations"]
        assert operation["traceparent"] == "x" * TRACE_CHARS_MAX


async def test_a_device_can_be_built_in_by_hand_however_strange() -> None:
    async with served_fabric(fabric()) as east:
        answer = await east.http.post("_devices", json={"device_uuid": "GPU-x", "model": "", "machine": machine(3)})
        held = (await east.http.get("_inventory")).json()
        [device] = held["machines"][machine(3)]
        assert (device["device_id"], device["model"]) == (answer.json()["device_id"], "")
        again = await east.http.post("_devices", json={"device_uuid": "GPU-x", "model": ""})
        assert (again.status_code, "is there twice" in again.text) == (400, True)


async def test_faults_can_be_set_while_it_runs() -> None:
    async with served_fabric(fabric()) as east:
        answer = await east.http.post("_faults", json={"refuse_share": 1.0, "switch_median_s": 0.01})
        assert answer.json()["refuse_share"] == 1.0
        assert answer.json()["switch_sigma"] == 0.0
        assert (await attach(east)).status_code == 503
        await east.http.post("_faults", json={"refuse_share": 0})
        assert (await attach(east)).status_code == 200


async def test_a_fault_that_is_null_stays_as_it_is() -> None:
    async with served_fabric(fabric()) as east:
        await east.http.post("_faults", json={"refuse_share": 0.5, "delay_s": 1})
        answer = await east.http.post("_faults", json={"refuse_share": None, "limit": None, "outage": None, "seed": 7})
        assert answer.status_code == 200
        said = answer.json()
        assert (said["refuse_share"], said["delay_s"], said["seed"]) == (0.5, 1, 7)


async def test_shares_are_refused_if_with_those_that_stay_they_are_more_than_every_call() -> None:
    async with served_fabric(fabric()) as east:
        await east.http.post("_faults", json={"refuse_share": 0.6})
        for body in ({"drop_share": 0.6}, {"drop_share": 0.6, "half_share": 0.6}):
            refused = await east.http.post("_faults", json=body)
            assert refused.status_code == 400
            assert refused.json()["detail"]["message"].startswith("refuse_share, drop_share")


@pytest.mark.parametrize("body", [{"refuse_share": 2}, {"refuse_share": 0.6, "drop_share": 0.6}, {"typo": 1}])
async def test_faults_that_cannot_be_are_refused_and_change_nothing(body: dict[str, float]) -> None:
    async with served_fabric(fabric()) as east:
        assert (await east.http.post("_faults", json=body)).status_code == 400
        assert (await attach(east)).status_code == 200


class TestOutage:
    """Of everything but these pages."""

    async def test_refuse_answers_503(self) -> None:
        async with served_fabric(fabric()) as east:
            await east.http.post("_faults", json={"outage": "refuse"})
            assert (await east.http.get("redfish/v1/Systems")).status_code == 503
            assert (await east.http.get("_inventory")).status_code == 200
            await east.http.post("_faults", json={"outage": "none"})
            assert (await east.http.get("redfish/v1/Systems")).status_code == 200

    async def test_drop_answers_nobody(self) -> None:
        async with served_fabric(fabric()) as east:
            await east.http.post("_faults", json={"outage": "drop"})
            with pytest.raises(httpx.ReadTimeout):
                await east.http.get("redfish/v1/Systems", timeout=0.2)

    async def test_nonsense_is_no_json(self) -> None:
        async with served_fabric(fabric()) as east:
            await east.http.post("_faults", json={"outage": "nonsense"})
            with pytest.raises(ValueError, match="Expecting"):
                (await east.http.get("redfish/v1/Systems")).json()


async def test_every_call_can_be_made_slow() -> None:
    clock = SteppedClock()
    async with served_fabric(fabric(), clock=clock) as east:
        assert (await east.http.post("_faults", json={"delay_s": 20})).json()["delay_s"] == 20
        call = asyncio.create_task(east.http.get("redfish/v1/Systems"))
        await until(lambda: clock.waiting)
        assert not call.done()
        clock.advance(20)
        assert (await call).status_code == 200


async def test_pages_of_the_simulator_answer_only_its_own_machine() -> None:
    manager = open_manager(fabric(), GROUPS)
    transport = httpx.ASGITransport(make_app([manager]), client=("192.0.2.7", 4711))
    async with httpx.AsyncClient(transport=transport, base_url="http://fabric/east") as stranger:
        for page in ("_inventory", "_operations"):
            assert (await stranger.get(page)).status_code == 403
        assert (await stranger.post("_faults", json={"outage": "refuse"})).status_code == 403
        assert (await stranger.get("redfish/v1/Systems")).status_code == 200


async def test_several_fabrics_are_served_side_by_side() -> None:
    west = fabric().model_copy(update={"name": "west"})
    groups = [GROUPS[0].model_copy(update={"fabric": "west", "name": "far"})]
    async with (
        served(make_app([open_manager(fabric(), GROUPS), open_manager(west, groups)])) as root,
        httpx.AsyncClient(base_url=root, trust_env=False) as http,
    ):
        assert (await http.get("/")).json() == {"fabrics": ["east", "west"]}
        inventories = [(await http.get(f"/{name}/_inventory")).json() for name in ("east", "west")]
        assert not set(inventories[0]["machines"]) & set(inventories[1]["machines"])
        assert (await http.get("/north/_inventory")).status_code == 404
