"""Fleets of simulated nodes: what each offers, and that many are made at once without outrunning the bound."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from muster_tools.local_kubernetes.errors import FleetError
from muster_tools.local_kubernetes.fleet import create_all, make_fleet
from muster_tools.local_kubernetes.nodes import Devices, NodeShape, node, resource_slice


class Recorder:
    """An API server that takes everything but what is called `bad`."""

    def __init__(self) -> None:
        self.posted: list[tuple[str, str]] = []
        self.most = self.now = 0

    async def post(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        name = body["metadata"]["name"]
        if name == "bad":
            return web.json_response({"message": "spec: invalid"}, status=422)
        self.posted.append((request.path, name))
        return web.json_response(body, status=409 if name == "there" else 201)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def client(recorder: Recorder) -> AsyncIterator[aiohttp.ClientSession]:
    app = web.Application()
    app.router.add_post("/{path:.*}", recorder.post)
    async with TestServer(app) as server, aiohttp.ClientSession(server.make_url("/")) as session:
        yield session


async def test_a_fleet_with_a_device_plugin_is_nodes_alone(client: aiohttp.ClientSession, recorder: Recorder) -> None:
    fleet = await make_fleet(client, 3)

    assert fleet.gpus == 24
    assert sorted(recorder.posted) == [("/api/v1/nodes", f"gpu-{index:04}") for index in range(3)]


async def test_a_fleet_with_dra_publishes_its_devices(client: aiohttp.ClientSession, recorder: Recorder) -> None:
    await make_fleet(client, 2, shape=NodeShape(devices=Devices.DRA))

    kinds = [path.rsplit("/", 1)[1] for path, _ in recorder.posted]
    assert {kind: kinds.count(kind) for kind in kinds} == {"nodes": 2, "deviceclasses": 1, "resourceslices": 2}


async def test_no_more_than_so_many_requests_at_a_time(client: aiohttp.ClientSession, recorder: Recorder) -> None:
    made = await create_all(client, (("/x", {"metadata": {"name": str(index)}}) for index in range(40)), parallel=4)

    assert made == len(recorder.posted) == 40
    assert 1 < recorder.most <= 4


async def test_what_is_there_already_is_no_error(client: aiohttp.ClientSession) -> None:
    assert await create_all(client, [("/x", {"metadata": {"name": "there"}})]) == 1


async def test_a_refusal_is_told_in_the_api_servers_words(client: aiohttp.ClientSession) -> None:
    with pytest.raises(FleetError, match=r"POST /x: 422; .*spec: invalid"):
        await create_all(client, [("/x", {"metadata": {"name": "bad"}})])


def test_nodes_stand_in_racks_and_zones() -> None:
    shape = NodeShape(nodes_per_rack=2, racks_per_zone=3)

    racks = [node(index, shape)["metadata"]["labels"]["muster.dev/rack"] for index in range(4)]
    zones = [node(index, shape)["metadata"]["labels"]["topology.kubernetes.io/zone"] for index in (0, 5, 6)]

    assert racks == ["rack-0", "rack-0", "rack-1", "rack-1"]
    assert zones == ["zone-0", "zone-0", "zone-1"]


def test_a_node_offers_its_gpus_in_one_way_only() -> None:
    assert "nvidia.com/gpu" in node(0, NodeShape())["status"]["capacity"]
    assert "nvidia.com/gpu" not in node(0, NodeShape(devices=Devices.DRA))["status"]["capacity"]


def test_devices_are_spread_evenly_over_sockets_and_have_names_of_their_own() -> None:
    devices = resource_slice(7, NodeShape())["spec"]["devices"]

    assert [device["attributes"]["resource.kubernetes.io/numaNode"]["int"] for device in devices] == [0] * 4 + [1] * 4
    assert len({device["attributes"]["uuid"]["string"] for device in devices}) == 8
    assert len({device["attributes"]["resource.kubernetes.io/pcieRoot"]["string"] for device in devices}) == 4
