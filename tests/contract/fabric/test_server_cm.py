"""The simulated Cluster Manager as its clients speak to it: a resize answers at once, devices come later."""

from collections.abc import AsyncIterator

import httpx
import pytest

from kit.clocks import SteppedClock
from kit.fabrics import GROUPS, MODEL, OTHER_MODEL, ServedFabric, fabric, machine, served_fabric

ROOT = "cluster_manager/cluster_autoscaler/v3/tenants/tenant/clusters/cluster/machines"
NODE_GROUPS = "cluster_manager/cluster_autoscaler/v2/tenants/tenant/clusters/cluster/nodegroups"
Json = dict[str, object]


class Cluster:
    """What a client of the Cluster Manager does; time passes only by `advance`."""

    def __init__(self, east: ServedFabric, clock: SteppedClock) -> None:
        self.http = east.http
        self.clock = clock

    async def spec(self, model: str = MODEL, index: int = 1) -> dict[str, object]:
        shown = (await self.http.get(f"{ROOT}/{machine(index)}")).json()["data"]["cluster"]["machine"]
        for spec in shown["resspecs"]:
            if spec["selector"]["expression"]["conditions"][0]["value"] == model:
                assert isinstance(spec, dict)
                return spec
        raise AssertionError(f"no spec of {model}")

    async def devices(self, index: int = 1) -> list[tuple[str, str]]:
        """Ids and statuses."""
        devices = (await self.spec(index=index))["devices"]
        assert isinstance(devices, list)
        return [(one["device_id"], one["status"]) for one in devices]

    async def increase(self, count: int, *, model: str = MODEL, index: int = 1) -> httpx.Response:
        spec = await self.spec(model, index)
        body = {"increase_resource_count": {"spec_uuid": spec["spec_uuid"], "device_count": count}}
        return await self.http.post(f"{ROOT}/{machine(index)}/actions/resize", json=body)

    async def remove(self, device_id: str, count: int) -> httpx.Response:
        spec = await self.spec()
        body = {"remove_resources": {"spec_uuid": spec["spec_uuid"], "device_count": count, "devices": [device_id]}}
        return await self.http.post(f"{ROOT}/{machine(1)}/actions/resize", json=body)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    clock = SteppedClock()
    async with served_fabric(fabric(driver="cm", switch_median_s=30), clock=clock) as east:
        yield Cluster(east, clock)


async def test_a_machine_shows_what_it_has_and_may_have(cluster: Cluster) -> None:
    spec = await cluster.spec()
    assert (spec["type"], spec["device_count"]) == ("gpu", 1)
    assert (spec["min_resspec_count"], spec["max_resspec_count"]) == (0, 8)
    [device] = spec["devices"]  # type: ignore[misc]
    assert device["status"] == "ADD_COMPLETE"
    assert device["device_id"].startswith("GPU-")
    assert device["detail"]["res_uuid"]
    assert device["detail"]["res_op_status"].startswith("0")
    assert (await cluster.spec(OTHER_MODEL))["device_count"] == 0


async def test_the_count_rises_at_once_and_the_device_comes_when_the_switch_is_done(cluster: Cluster) -> None:
    assert (await cluster.increase(2)).status_code == 200
    assert (await cluster.spec())["device_count"] == 2
    assert len(await cluster.devices()) == 1
    cluster.clock.advance(31)
    assert [status for _, status in await cluster.devices()] == ["ADD_COMPLETE", "ADD_COMPLETE"]


async def test_a_removal_lowers_the_count_at_once_and_the_device_stays_until_the_switch_is_done(
    cluster: Cluster,
) -> None:
    [(device_id, _)] = await cluster.devices()
    assert (await cluster.remove(device_id, 0)).status_code == 200
    assert (await cluster.spec())["device_count"] == 0
    assert len(await cluster.devices()) == 1
    cluster.clock.advance(31)
    assert await cluster.devices() == []


async def test_a_count_that_was_read_before_another_resize_is_a_conflict(cluster: Cluster) -> None:
    [(device_id, _)] = await cluster.devices()
    assert (await cluster.increase(2)).status_code == 200
    assert (await cluster.increase(2)).status_code == 409
    assert (await cluster.remove(device_id, 0)).status_code == 409
    cluster.clock.advance(31)
    assert len(await cluster.devices()) == 2


async def test_more_than_a_machine_may_have_is_refused(cluster: Cluster) -> None:
    answer = await cluster.increase(9)
    assert answer.status_code == 400
    assert "max_resspec_count 8" in answer.json()["detail"]["message"]


async def test_one_resize_moves_a_bounded_number_of_devices() -> None:
    clock = SteppedClock()
    async with served_fabric(fabric(memory_pool={"CXL-128G": 100}), clock=clock) as east:
        answer = await Cluster(east, clock).increase(65, model="CXL-128G")
        assert answer.status_code == 400
        assert "at most 64" in answer.json()["detail"]["message"]
        assert not east.manager.model.moving()


async def test_what_is_not_there_is_not_found(cluster: Cluster) -> None:
    assert (await cluster.remove("elsewhere", 0)).status_code == 404
    assert (await cluster.http.get(f"{ROOT}/elsewhere")).status_code == 404
    assert (await cluster.http.get(f"{ROOT.replace('/cluster/', '/else/')}/{machine(1)}")).status_code == 404
    body = {"increase_resource_count": {"spec_uuid": "elsewhere", "device_count": 2}}
    assert (await cluster.http.post(f"{ROOT}/{machine(1)}/actions/resize", json=body)).status_code == 404


async def test_a_resize_that_asks_for_both_or_nothing_is_refused(cluster: Cluster) -> None:
    answer = await cluster.http.post(f"{ROOT}/{machine(1)}/actions/resize", json={})
    assert answer.status_code == 400
    assert "increase_resource_count or remove_resources" in answer.json()["detail"]["message"]


async def test_an_attachment_that_broke_off_stands_there_as_failed_or_not_at_all() -> None:
    clock = SteppedClock()
    async with served_fabric(fabric(half_share=1, pool={MODEL: 8}), clock=clock) as east:
        cluster = Cluster(east, clock)
        assert (await cluster.increase(8)).status_code == 200
        clock.advance(1)
        statuses = [status for _, status in await cluster.devices()]
        assert statuses[0] == "ADD_COMPLETE"
        assert set(statuses[1:]) == {"ADD_FAILED"}
        assert 1 < (await cluster.spec())["device_count"] == len(statuses) < 8  # type: ignore[operator]


async def test_a_removal_that_broke_off_leaves_the_device_as_failed_or_took_it_away() -> None:
    clock = SteppedClock()
    full = GROUPS[0].model_copy(update={"gpus": 8})
    async with served_fabric(fabric(half_share=1), [full], clock=clock) as east:
        cluster = Cluster(east, clock)
        for left, (device_id, _) in zip(range(7, -1, -1), await cluster.devices(), strict=True):
            assert (await cluster.remove(device_id, left)).status_code == 200
        clock.advance(1)
        statuses = [status for _, status in await cluster.devices()]
        assert set(statuses) == {"REMOVE_FAILED"}
        assert (await cluster.spec())["device_count"] == len(statuses) < 8


async def test_a_resize_is_answered_when_it_is_begun_unless_a_fault_takes_the_answer() -> None:
    clock = SteppedClock()
    async with served_fabric(fabric(drop_share=1), clock=clock) as east:
        cluster = Cluster(east, clock)
        east.http.timeout = httpx.Timeout(0.3)
        with pytest.raises(httpx.ReadTimeout):
            await cluster.increase(2)
        clock.advance(1)
        assert len(await cluster.devices()) == 2


async def test_node_groups_name_their_machines(cluster: Cluster) -> None:
    [group] = (await cluster.http.get(NODE_GROUPS)).json()["nodegroups"]
    assert group["name"] == "cdi"
    shown = (await cluster.http.get(f"{NODE_GROUPS}/{group['uuid']}")).json()
    assert shown["mach_ids"] == [machine(index) for index in (1, 2, 3, 4)]
    assert (await cluster.http.get(f"{NODE_GROUPS}/elsewhere")).status_code == 404
