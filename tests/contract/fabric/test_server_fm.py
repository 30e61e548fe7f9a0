"""The simulated Fabric Manager as its clients speak to it: over HTTP, with what they send and read."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from kit.clocks import SteppedClock
from kit.fabrics import LOGIN, MODEL, OTHER_MODEL, ServedFabric, fabric, machine, served_fabric
from kit.waiting import until
from muster.fabric.simulator.server import BODY_BYTES_MAX

TENANT = {"tenant_uuid": "tenant"}
MACHINES = "fabric_manager/api/v1/machines"
TOKEN = f"id_manager/realms/{LOGIN['realm']}/protocol/openid-connect/token"
FORM = {
    "client_id": LOGIN["client_id"],
    "client_secret": LOGIN["client_secret"],
    "username": LOGIN["username"],
    "password": LOGIN["password"],
    "scope": "openid",
    "response_type": "id_token token",
    "grant_type": "password",
}
Json = dict[str, object]


@pytest.fixture
async def east() -> AsyncIterator[ServedFabric]:
    """A fabric that asks nobody who he is."""
    async with served_fabric(fabric()) as one:
        yield one


def update(machine_id: str, spec: Json) -> Json:
    return {
        "tenants": {
            "tenant_uuid": "tenant",
            "machines": [{"mach_uuid": machine_id, "resources": [{"res_specs": [spec]}]}],
        }
    }


def wanted(model: str = MODEL, count: int = 1, kind: str = "gpu") -> Json:
    condition = [{"column": "model", "operator": "eq", "value": model}]
    return {"res_type": kind, "res_spec": {"condition": condition}, "res_num": count}


async def attach(east: ServedFabric, index: int = 1, **spec: object) -> httpx.Response:
    body = update(machine(index), wanted(**spec))  # type: ignore[arg-type]
    return await east.http.patch(f"{MACHINES}/{machine(index)}/update", params=TENANT, json=body)


async def detach(east: ServedFabric, device_id: str, index: int = 1) -> httpx.Response:
    body = update(machine(index), {"res_type": "gpu", "res_uuid": device_id, "res_num": 1})
    return await east.http.request("DELETE", f"{MACHINES}/{machine(index)}/update", params=TENANT, json=body)


async def resources(east: ServedFabric, index: int = 1) -> list[Json]:
    answer = await east.http.get(f"{MACHINES}/{machine(index)}", params=TENANT)
    found = answer.json()["data"]["machines"][0]["resources"]
    assert isinstance(found, list)
    return found


async def free(east: ServedFabric, model: str = MODEL) -> int:
    condition = json.dumps({"column": "model", "operator": "eq", "value": model})
    params = {**TENANT, "res_type": "gpu", "condition": condition}
    answer = await east.http.get(f"{MACHINES}/{machine(1)}/available-reserved-resources", params=params)
    return int(answer.json()["reserved_res_num_per_fabric"])


async def test_an_attachment_answers_with_the_new_device_when_the_switch_is_done(east: ServedFabric) -> None:
    before = {str(one["res_uuid"]) for one in await resources(east)}
    answer = await attach(east)
    assert answer.status_code == 200
    [new] = answer.json()["data"]["machines"][0]["resources"]
    assert new["res_type"] == "gpu"
    assert new["res_op_status"].startswith("0")
    assert new["res_serial_num"].startswith("GPU-")
    assert new["res_spec"]["condition"] == [{"column": "model", "operator": "eq", "value": MODEL}]
    assert {str(one["res_uuid"]) for one in await resources(east)} == before | {new["res_uuid"]}
    assert await free(east) == 3


async def test_an_attachment_takes_as_long_as_the_switch() -> None:
    clock = SteppedClock()
    async with served_fabric(fabric(switch_median_s=30), clock=clock) as east:
        call = asyncio.create_task(attach(east))
        await until(lambda: clock.waiting)
        clock.advance(29.9)
        assert len(await resources(east)) == 1
        assert not call.done()
        clock.advance(0.2)
        assert (await call).status_code == 200
        assert len(await resources(east)) == 2


async def test_several_devices_of_one_request_all_come(east: ServedFabric) -> None:
    answer = await attach(east, count=3)
    assert len(answer.json()["data"]["machines"][0]["resources"]) == 3
    assert await free(east) == 1


async def test_a_memory_device_shows_its_size(east: ServedFabric) -> None:
    answer = await attach(east, model="CXL-128G", kind="cxlmemory")
    [new] = answer.json()["data"]["machines"][0]["resources"]
    assert {"column": "memory_mib", "operator": "eq", "value": "131072"} in new["res_spec"]["condition"]


async def test_a_detached_device_is_in_the_pool_again(east: ServedFabric) -> None:
    [standing] = await resources(east)
    assert (await detach(east, str(standing["res_uuid"]))).status_code == 204
    assert await resources(east) == []
    assert await free(east) == 5


async def test_all_machines_are_listed_with_what_is_on_them(east: ServedFabric) -> None:
    listed = (await east.http.get(MACHINES, params=TENANT)).json()["data"]["machines"]
    assert [one["mach_uuid"] for one in listed] == [machine(index) for index in (1, 2, 3, 4)]
    assert [len(one["resources"]) for one in listed] == [1, 1, 0, 0]
    assert listed[0]["fabric_id"] == 1


@pytest.mark.parametrize(
    ("spec", "status", "said"),
    [
        ({"model": "B200"}, 400, "B200"),
        ({"model": OTHER_MODEL, "kind": "cxlmemory"}, 400, OTHER_MODEL),
        ({"count": 65}, 400, "res_num"),
    ],
)
async def test_what_cannot_be_is_refused_in_the_managers_words(
    east: ServedFabric, spec: Json, status: int, said: str
) -> None:
    answer = await attach(east, **spec)
    assert answer.status_code == status
    body = answer.json()
    assert body["status"] == status
    assert said in body["detail"]["message"]
    assert body["detail"]["code"]


async def test_an_update_speaks_of_the_machine_and_tenant_of_its_path(east: ServedFabric) -> None:
    path = f"{MACHINES}/{machine(1)}/update"
    answer = await east.http.patch(path, params=TENANT, json=update(machine(2), wanted()))
    assert (answer.status_code, "mach_uuid" in answer.text) == (400, True)
    body = json.loads(json.dumps(update(machine(1), wanted())).replace('"tenant"', '"else"'))
    assert (await east.http.patch(path, params=TENANT, json=body)).status_code == 404
    assert await free(east) == 4


async def test_a_large_pool_is_counted_whole() -> None:
    async with served_fabric(fabric(pool={MODEL: 2_000})) as east:
        assert await free(east) == 2_000


async def test_an_empty_pool_refuses_and_changes_nothing(east: ServedFabric) -> None:
    assert (await attach(east, count=4)).status_code == 200
    answer = await attach(east, index=2)
    assert answer.status_code == 400
    assert "free" in answer.json()["detail"]["message"]
    assert len(await resources(east, 2)) == 1


async def test_unknown_machines_tenants_and_devices_are_not_found(east: ServedFabric) -> None:
    assert (await attach(east, index=99)).status_code == 404
    assert (await detach(east, "no-such-device")).status_code == 404
    assert (await east.http.get(MACHINES, params={"tenant_uuid": "else"})).status_code == 404
    assert (await east.http.get("../west/" + MACHINES, params=TENANT)).status_code == 404


async def test_a_refused_call_says_503_and_changes_nothing() -> None:
    async with served_fabric(fabric(refuse_share=1)) as east:
        assert (await attach(east)).status_code == 503
        assert (len(await resources(east)), await free(east)) == (1, 4)


async def test_a_dropped_call_does_its_work_and_is_never_answered() -> None:
    async with served_fabric(fabric(drop_share=1)) as east:
        east.http.timeout = httpx.Timeout(0.5)
        with pytest.raises(httpx.ReadTimeout):
            await attach(east)
        assert (len(await resources(east)), await free(east)) == (2, 3)


async def test_a_half_done_call_answers_500_and_the_device_may_have_moved() -> None:
    async with served_fabric(fabric(half_share=1, pool={MODEL: 20})) as east:
        for _ in range(10):
            assert (await attach(east)).status_code == 500
        moved = len(await resources(east)) - 1
        assert 0 < moved < 10
        assert await free(east) == 20 - moved


async def test_nonsense_is_said_after_the_work_was_done() -> None:
    async with served_fabric(fabric(nonsense_share=1)) as east:
        answer = await attach(east)
        assert answer.status_code == 200
        with pytest.raises(json.JSONDecodeError):
            answer.json()
        assert len(await resources(east)) == 2


async def test_a_request_delivered_twice_attaches_two_and_tells_of_one() -> None:
    async with served_fabric(fabric(twice_share=1)) as east:
        answer = await attach(east)
        assert len(answer.json()["data"]["machines"][0]["resources"]) == 1
        assert (len(await resources(east)), await free(east)) == (3, 2)


async def test_calls_over_the_limit_are_put_off() -> None:
    clock = SteppedClock()
    async with served_fabric(fabric(limit=1), clock=clock) as east:
        first = asyncio.create_task(attach(east))
        await until(lambda: clock.waiting)
        assert (await attach(east, 2)).status_code == 503
        clock.advance(1)
        assert (await first).status_code == 200


class TestTokens:
    """The password grant of id_manager."""

    async def test_a_token_opens_the_door_until_it_expires(self, tmp_path: Path) -> None:
        clock = SteppedClock()
        async with served_fabric(fabric(tmp_path, token_s=60), clock=clock) as east:
            granted = (await east.http.post(TOKEN, data=FORM)).json()
            assert granted["expires_in"] == 60
            east.http.headers["Authorization"] = f"Bearer {granted['access_token']}"
            assert len(await resources(east)) == 1
            clock.advance(60)
            answer = await east.http.get(MACHINES, params=TENANT)
            assert answer.status_code == 401
            assert "expired" in answer.json()["detail"]["message"]

    async def test_nobody_gets_in_without_one(self, tmp_path: Path) -> None:
        async with served_fabric(fabric(tmp_path)) as east:
            for header in ({}, {"Authorization": "Bearer a.b.c"}, {"Authorization": "Basic bXVzdGVy"}):
                answer = await east.http.get(MACHINES, params=TENANT, headers=header)
                assert answer.status_code == 401

    @pytest.mark.parametrize("field", ["client_id", "client_secret", "username", "password"])
    async def test_wrong_credentials_get_none(self, tmp_path: Path, field: str) -> None:
        async with served_fabric(fabric(tmp_path)) as east:
            answer = await east.http.post(TOKEN, data={**FORM, field: "wrong"})
            assert answer.status_code == 401
            assert LOGIN["password"] not in answer.text

    async def test_a_form_that_is_far_too_large_is_not_read(self, tmp_path: Path) -> None:
        async with served_fabric(fabric(tmp_path)) as east:
            assert (await east.http.post(TOKEN, content=b"x" * (BODY_BYTES_MAX + 1))).status_code == 413

    async def test_another_grant_or_realm_is_refused(self, tmp_path: Path) -> None:
        async with served_fabric(fabric(tmp_path)) as east:
            form = {**FORM, "grant_type": "client_credentials"}
            assert (await east.http.post(TOKEN, data=form)).status_code == 400
            elsewhere = TOKEN.replace(LOGIN["realm"], "elsewhere")
            assert (await east.http.post(elsewhere, data=FORM)).status_code == 404

    async def test_a_token_outlives_the_process_that_gave_it(self, tmp_path: Path) -> None:
        async with served_fabric(fabric(tmp_path)) as east:
            token = (await east.http.post(TOKEN, data=FORM)).json()["access_token"]
        async with served_fabric(fabric(tmp_path)) as east:
            east.http.headers["Authorization"] = f"Bearer {token}"
            assert len(await resources(east)) == 1
