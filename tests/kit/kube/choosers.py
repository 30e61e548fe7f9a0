"""A stack where Muster chooses devices, on nodes and in a namespace of a real API server. Beside tests/kubernetes."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.kube.planes import AnyPlane
from kit.stack.kubernetes import open_kubernetes_harness
from kit.stack.living import Harness
from kit.waiting import until_async
from muster.kube.connection import KubeConnection
from muster.kube.objects import JsonObject, objects, text
from muster.kube.resources import DEVICE_CLASSES, NAMESPACES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, SERVICES
from muster.kube.shapes import Selection
from muster_tools.local_kubernetes.fleet import make_fleet
from muster_tools.local_kubernetes.nodes import Devices, NodeShape

_NUMBERS = itertools.count()
WAIT_S = 60.0
DRIVER = "gpu.nvidia.com"


@dataclass
class Chooser:
    """A stack on two nodes of eight devices each, in a namespace of its own."""

    harness: Harness
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
async def open_chooser(plane: AnyPlane, directory: Path, *, devices_api: str = "v1") -> AsyncIterator[Chooser]:
    """devices_api: the version of `resource.k8s.io` that the plane serves."""
    namespace = prefix = f"chooser{next(_NUMBERS)}"
    async with (
        await KubeConnection.open(kubeconfig=plane.kubeconfig(), user_agent="muster-test/1") as kube,
        plane.client() as client,
    ):
        await kube.create(NAMESPACES, {"metadata": {"name": namespace}})
        shape = NodeShape(devices=Devices.DRA)
        labels = {"muster.dev/test": prefix}
        fleet = await make_fleet(
            client, 2, shape=shape, prefix=prefix, labels=labels, device_class_name=prefix, devices_api=devices_api
        )
        settings = {
            "namespace": namespace, "node_selector": labels, "device_class": prefix, "devices": "dra", "kept_s": 0.0,
            "teams": {namespace: namespace},
        }  # fmt: skip
        try:
            async with open_kubernetes_harness(directory, plane.kubeconfig(), **settings) as harness:
                yield Chooser(harness, kube, namespace, fleet.names)
        finally:
            for index, name in enumerate(fleet.names):
                await kube.delete(NODES, name)
                await kube.delete(RESOURCE_SLICES, f"{index:05}-{DRIVER}-{name}")
            await kube.delete(DEVICE_CLASSES, prefix)
            await kube.delete(NAMESPACES, namespace)
