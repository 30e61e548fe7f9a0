"""Composable machines on a real API server: replicas, finalizers, status, the operator's objects, pools as slices."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kit.agent_shell import AgentShell
from kit.kube.manifests import kubectl
from kit.kube.planes import AnyPlane
from muster.agent.core.cluster import AddNode, CancelScale
from muster.bus.kubernetes_settings import KubernetesSettings, PoolSettings, ScaleTargets
from muster.core.settings import GroupSettings, ScalingSettings
from muster.kube import resources
from muster.kube.connection import KubeConnection
from muster.kube.errors import NotFoundError
from muster.kube.objects import JsonObject, at, integer, objects, sequence, strings, text
from muster.schemas.devices import ComposabilitySpec, PoolModel, RequestPhase
from muster.schemas.facts.composability import (
    DeviceOrder,
    RequestAccepted,
    RequestEnded,
    RequestMoved,
)
from muster.schemas.facts.device import CallStarted
from muster.schemas.facts.fabric import FabricSurveyed, OperatorSeen

DEFINITIONS = sorted((Path(__file__).parent / "fabric_crds").glob("*.yaml"))
GROUPS = ScalingSettings(
    groups=(GroupSettings(name="hgx", composable=True, gpus_max=8, gpu_models=("A100",), fabric="f", nodes_max=9),)
)
PATIENCE_S = 60.0


@pytest.fixture(scope="module", autouse=True)
def kinds(plane: AnyPlane) -> Iterator[None]:
    """Cluster API's and the operator's."""
    for path in DEFINITIONS:
        kubectl(plane, "apply", "--server-side", "-f", str(path))
    for path in DEFINITIONS:
        kubectl(plane, "wait", "--for=condition=Established", "--timeout=60s", "-f", str(path))
    yield
    for path in DEFINITIONS:
        kubectl(plane, "delete", "--ignore-not-found", "--wait=false", "-f", str(path))


@pytest.fixture
async def kube(plane: AnyPlane) -> AsyncIterator[KubeConnection]:
    async with await KubeConnection.open(kubeconfig=plane.kubeconfig(), user_agent="muster-test/1") as connection:
        yield connection


@asynccontextmanager
async def agent(plane: AnyPlane, settings: KubernetesSettings, *, operated: str = "") -> AsyncIterator[AgentShell]:
    async def connect() -> KubeConnection:
        return await KubeConnection.open(kubeconfig=plane.kubeconfig(), user_agent="muster-agent/test")

    async with AgentShell(settings, GROUPS, connect, operated=operated, patience_s=PATIENCE_S) as shell:
        await shell.until(lambda: bool(shell.facts("cluster", "described")))
        yield shell


def settings(**more: object) -> KubernetesSettings:
    """Nodes of nobody: other tests have theirs."""
    return KubernetesSettings.model_validate(
        {"image": "busybox", "node_selector": {"muster.dev/test": "fabrics"}, "devices": "device-plugin", **more}
    )


async def test_replicas_follow_choices_exactly(plane: AnyPlane, kube: KubeConnection) -> None:
    body: JsonObject = {
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineSet", "metadata": {"name": "hgx-set"},
        "spec": {"replicas": 2},
    }  # fmt: skip
    await kube.create(resources.MACHINE_SETS, body, namespace="default")
    targets = ScaleTargets(namespace="default", names={"hgx": "hgx-set"})

    async def replicas() -> int:
        return integer(await kube.get(resources.MACHINE_SETS, "hgx-set", namespace="default"), "spec", "replicas")

    async def is_three() -> bool:
        return await replicas() == 3

    async def is_two() -> bool:
        return await replicas() == 2

    try:
        async with agent(plane, settings(scaling=targets)) as shell:
            shell.core.cluster.carry_out(AddNode("s000001", "hgx", "hgx-0001", shell.time.wall()))
            await shell.until_async(is_three)
            shown = strings(
                await kube.get(resources.MACHINE_SETS, "hgx-set", namespace="default"), "metadata", "annotations"
            )
            assert shown["muster.dev/spec"] == "spec-fixed"
            assert shown["capacity.cluster-autoscaler.kubernetes.io/gpu-count"] == "8"
            shell.core.cluster.carry_out(CancelScale("s000001"))
            await shell.until_async(is_two)
    finally:
        await kube.delete(resources.MACHINE_SETS, "hgx-set", namespace="default")


async def test_an_object_is_kept_until_its_devices_are_back(plane: AnyPlane, kube: KubeConnection) -> None:
    spec = {"type": "gpu", "model": "A100", "size": 1, "target_node": "n1"}
    body: JsonObject = {
        "apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposabilityRequest",
        "metadata": {"name": "gpus-of-test"}, "spec": {"resource": spec},
    }  # fmt: skip
    async with agent(plane, settings(requests="muster")) as shell:
        await kube.create(resources.COMPOSABILITY_REQUESTS, body)
        await shell.until(lambda: bool(shell.facts("composability", "compose-requested")))
        accepted = RequestAccepted(
            spec=ComposabilitySpec.model_validate(spec), principal="kubernetes:composabilityrequests"
        )
        shell.write("composer", "composability", "gpus-of-test", "accepted", accepted)
        shell.write("composer", "composability", "gpus-of-test", "moved", RequestMoved(phase=RequestPhase.RUNNING))

        async def is_running() -> bool:
            raw = await kube.get(resources.COMPOSABILITY_REQUESTS, "gpus-of-test")
            return text(raw, "status", "state") == "Running"

        await shell.until_async(is_running)
        await kube.delete(resources.COMPOSABILITY_REQUESTS, "gpus-of-test")
        await shell.until(lambda: bool(shell.facts("composability", "decompose-requested")))
        raw = await kube.get(resources.COMPOSABILITY_REQUESTS, "gpus-of-test")
        assert sequence(raw, "metadata", "finalizers") == ["muster.dev/composability"]
        shell.write("composer", "composability", "gpus-of-test", "ended", RequestEnded())

        async def is_gone() -> bool:
            try:
                await kube.get(resources.COMPOSABILITY_REQUESTS, "gpus-of-test")
            except NotFoundError:
                return True
            return False

        await shell.until_async(is_gone)


async def test_the_operators_objects_follow_the_composer(plane: AnyPlane, kube: KubeConnection) -> None:
    async with agent(plane, settings(requests="operator"), operated="f") as shell:
        order = DeviceOrder(id="gpu-1", node="n1", fabric="f", machine="n1")
        accepted = RequestAccepted(spec=ComposabilitySpec(model="A100", size=1), orders=(order,))
        shell.write("composer", "composability", "r", "accepted", accepted)
        shell.write("composer", "attachment", "gpu-1", "attaching", CallStarted(attempt=1, deadline_at=1))

        async def ours() -> list[JsonObject]:
            return [one async for one in listed(kube, resources.COMPOSABILITY_REQUESTS)]

        async def is_there() -> bool:
            return bool(await ours())

        await shell.until_async(is_there)
        (request,) = await ours()
        assert at(request, "spec", "resource", "size") == 1
        name = text(request, "metadata", "name")
        device: JsonObject = {
            "apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposableResource",
            "metadata": {"name": "gpu-xyz", "labels": {"app.kubernetes.io/managed-by": name}},
            "spec": {"type": "gpu", "model": "A100", "target_node": "n1"},
        }  # fmt: skip
        made = await kube.create(resources.COMPOSABLE_RESOURCES, device)
        status: JsonObject = {"state": "Online", "device_id": "GPU-1", "cdi_device_id": "res-1"}
        await kube.replace(resources.COMPOSABLE_RESOURCES, "gpu-xyz", {**made, "status": status}, subresource="status")
        await shell.until(
            lambda: any(
                isinstance(fact.payload, OperatorSeen) and any(one.state == "Online" for one in fact.payload.devices)
                for fact in shell.facts("fabric", "operator-seen")
            )
        )
        detaching = CallStarted(attempt=2, deadline_at=1, device_id="res-1", device_uuid="GPU-1")
        shell.write("composer", "attachment", "gpu-1", "detaching", detaching)

        async def is_lowered() -> bool:
            return [at(one, "spec", "resource", "size") for one in await ours()] == [0]

        await shell.until_async(is_lowered)
        raw = await kube.get(resources.COMPOSABLE_RESOURCES, "gpu-xyz")
        assert strings(raw, "metadata", "annotations")["cohdi.io/delete-device"] == "true"
        await kube.delete(resources.COMPOSABLE_RESOURCES, "gpu-xyz")

        async def is_empty() -> bool:
            return not await ours()

        await shell.until_async(is_empty)


async def test_a_pool_is_published_as_a_slice_of_no_node(plane: AnyPlane, kube: KubeConnection) -> None:
    published = settings(devices="dra", pool=PoolSettings(names={"A100": "a100"}, fabrics={"f": 0}))
    async with agent(plane, published) as shell:
        shell.write("composer", "fabric", "f", "surveyed", FabricSurveyed(pool=(PoolModel(model="A100", free=3),)))

        async def count() -> int:
            try:
                raw = await kube.get(resources.RESOURCE_SLICES, "a100-fabric0")
            except NotFoundError:
                return -1
            assert text(raw, "spec", "nodeName") == ""
            return len(objects(raw, "spec", "devices"))

        async def is_three() -> bool:
            return await count() == 3

        async def is_one() -> bool:
            return await count() == 1

        try:
            await shell.until_async(is_three)
            shell.write("composer", "fabric", "f", "surveyed", FabricSurveyed(pool=(PoolModel(model="A100", free=1),)))
            await shell.until_async(is_one)
            raw = await kube.get(resources.RESOURCE_SLICES, "a100-fabric0")
            assert integer(raw, "spec", "pool", "generation") > 1
        finally:
            await kube.delete(resources.RESOURCE_SLICES, "a100-fabric0")


async def listed(kube: KubeConnection, resource: resources.Resource) -> AsyncIterator[JsonObject]:
    page = await kube.list_page(resource)
    for item in page.items:
        yield item
