"""The whole stack where Muster chooses devices: jobs become pods with claims, and every device comes back."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest_asyncio

from kube_planes import AnyPlane
from kubernetes_house import open_kubernetes_house
from living_stack import House, job
from muster.kube.connection import KubeConnection
from muster.kube.local.fleet import make_fleet
from muster.kube.local.nodes import Devices, NodeShape, device_uuid
from muster.kube.objects import JsonObject, at, name_of, objects, text
from muster.kube.resources import DEVICE_CLASSES, NAMESPACES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, SERVICES
from muster.kube.shapes import Selection
from muster.schemas.job import JobSpec, Phase, Topology
from muster.schemas.labels import RUN_S
from waiting import until_async

_NUMBERS = itertools.count()
WAIT_S = 60.0
DRIVER = "gpu.nvidia.com"


def running(name: str, *, run_s: float | None = None, **fields: object) -> JobSpec:
    """A job whose pods KWOK ends after `run_s`; None: they run on."""
    labels = {} if run_s is None else {RUN_S: f"{run_s:g}"}
    return job(name, **fields).model_copy(update={"labels": labels})  # type: ignore[arg-type] - fields of a job


@dataclass
class Chooser:
    """A stack on two nodes of eight devices each, in a namespace of its own."""

    house: House
    kube: KubeConnection
    namespace: str
    nodes: tuple[str, ...]

    async def claims(self) -> list[JsonObject]:
        return (await self.kube.list_page(RESOURCE_CLAIMS, select=Selection(self.namespace))).items

    async def until_nothing_is_left(self) -> None:
        async def nothing() -> bool:
            kinds = (PODS, RESOURCE_CLAIMS, SERVICES)
            left = [await self.kube.list_page(kind, select=Selection(self.namespace)) for kind in kinds]
            return not any(page.items for page in left)

        await until_async(nothing, patience_s=WAIT_S)


def held(claims: list[JsonObject]) -> list[tuple[str, str]]:
    """Node and device that claims name, with repetition."""
    results = (one for claim in claims for one in objects(claim, "status", "allocation", "devices", "results"))
    return sorted((text(one, "pool"), text(one, "device")) for one in results)


@asynccontextmanager
async def open_chooser(plane: AnyPlane, directory: Path) -> AsyncIterator[Chooser]:
    namespace = prefix = f"chooser{next(_NUMBERS)}"
    async with (
        await KubeConnection.open(kubeconfig=plane.kubeconfig(), user_agent="muster-test/1") as kube,
        plane.client() as client,
    ):
        await kube.create(NAMESPACES, {"metadata": {"name": namespace}})
        shape = NodeShape(devices=Devices.DRA)
        labels = {"muster.dev/test": prefix}
        fleet = await make_fleet(client, 2, shape=shape, prefix=prefix, labels=labels, device_class_name=prefix)
        settings = {
            "namespace": namespace, "node_selector": labels, "device_class": prefix, "devices": "dra", "kept_s": 0.0,
        }  # fmt: skip
        try:
            async with open_kubernetes_house(directory, plane.kubeconfig(), **settings) as house:
                yield Chooser(house, kube, namespace, fleet.names)
        finally:
            for index, name in enumerate(fleet.names):
                await kube.delete(NODES, name)
                await kube.delete(RESOURCE_SLICES, f"{index:05}-{DRIVER}-{name}")
            await kube.delete(DEVICE_CLASSES, prefix)
            await kube.delete(NAMESPACES, namespace)


@pytest_asyncio.fixture(loop_scope="function")
async def chooser(plane: AnyPlane, tmp_path: Path) -> AsyncIterator[Chooser]:
    async with open_chooser(plane, tmp_path / "state") as opened:
        yield opened


async def test_jobs_run_on_the_devices_that_were_chosen_and_give_them_back(chooser: Chooser) -> None:
    wide = await chooser.house.muster.submit(running("wide", gpus=4, replicas=4))
    await chooser.house.job_that(wide.id, lambda view: view.phase is Phase.RUNNING, WAIT_S)
    claims = await chooser.claims()
    assert len(held(claims)) == len(set(held(claims))) == 16
    for claim in claims:
        assert len(objects(claim, "status", "reservedFor")) == 1
    started = next(fact for fact in await chooser.house.facts() if fact.name == "pods-started")
    told = {uuid for slot in started.payload.device_uuids for uuid in slot}  # type: ignore[attr-defined]
    assert told == {device_uuid(node, device) for node in range(2) for device in range(8)}
    waiting = await chooser.house.muster.submit(running("waiting", gpus=8, run_s=0.3))
    await chooser.house.muster.cancel(wide.id)
    assert [one.phase for one in await chooser.house.ended([waiting.id])] == [Phase.SUCCEEDED]
    await chooser.until_nothing_is_left()


async def test_devices_of_one_socket_are_chosen_where_that_is_required(chooser: Chooser) -> None:
    spec = running("near", gpus=4, replicas=4).model_copy()
    near = spec.task_groups[0].model_copy(update={"topology": Topology(level="socket", required=True)})
    one = await chooser.house.muster.submit(spec.model_copy(update={"task_groups": (near,)}))
    await chooser.house.job_that(one.id, lambda view: view.phase is Phase.RUNNING, WAIT_S)
    for claim in await chooser.claims():
        numbers = sorted(int(device.removeprefix("gpu-")) for _, device in held([claim]))
        assert numbers in ([0, 1, 2, 3], [4, 5, 6, 7])


async def test_a_device_that_somebody_else_took_is_not_given_away(chooser: Chooser) -> None:
    node = chooser.nodes[0]
    request = {"name": "r", "exactly": {"deviceClassName": chooser.namespace}}
    body: JsonObject = {"metadata": {"name": "theirs"}, "spec": {"devices": {"requests": [request]}}}
    claim = await chooser.kube.create(RESOURCE_CLAIMS, body, namespace=chooser.namespace)
    result = {"request": "r", "driver": DRIVER, "pool": node, "device": "gpu-3"}
    claim["status"] = {"allocation": {"devices": {"results": [result]}}}
    await chooser.kube.replace_status(RESOURCE_CLAIMS, "theirs", claim, namespace=chooser.namespace)
    jobs = [await chooser.house.muster.submit(running(f"one-{number}", gpus=1)) for number in range(15)]
    for one in jobs:
        await chooser.house.job_that(one.id, lambda view: view.phase is Phase.RUNNING, WAIT_S)
    claims = await chooser.claims()
    assert len(held(claims)) == len(set(held(claims))) == 16
    assert [name_of(one) for one in claims if (node, "gpu-3") in held([one])] == ["theirs"]
    assert at(claim, "metadata", "ownerReferences") is None
