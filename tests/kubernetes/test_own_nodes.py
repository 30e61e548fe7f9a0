"""Beside kube-scheduler and its controllers: Muster's nodes get what every node needs, and nobody else's pods."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kit.kube.manifests import K8S, kubectl
from kit.kube.planes import open_plane
from kit.waiting import until_async
from muster.agent.core.kubernetes.ownership import taint_patch
from muster.kube.connection import KubeConnection
from muster.kube.objects import JsonObject, objects, text
from muster.kube.resources import CONFIG_MAPS, NODES, PODS, RESOURCE_CLAIMS, Resource
from muster.kube.shapes import Patch, Selection
from muster_tools.local_kubernetes.fleet import make_fleet
from muster_tools.local_kubernetes.nodes import Devices, NodeShape
from muster_tools.local_kubernetes.options import CONTROLLERS, PlaneOptions
from muster_tools.local_kubernetes.plane import ControlPlane

DAEMON_SETS = Resource("apps", "v1", "daemonsets", namespaced=True, kind="DaemonSet")
PLANE = PlaneOptions(scheduler=True, controllers=(*CONTROLLERS, "daemonset-controller"))
NODE = "own-0000"
EVERYTHING: JsonObject = {"operator": "Exists"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane() -> AsyncIterator[ControlPlane]:
    async with open_plane(PLANE) as opened:
        yield opened


@pytest.fixture(scope="module")
def own(plane: ControlPlane) -> None:
    for words in (["-f", str(K8S / "base" / "namespaces.yaml")], ["-k", str(K8S / "base" / "dra")]):
        kubectl(plane, "apply", "--server-side", *words)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kube(plane: ControlPlane, own: None) -> AsyncIterator[KubeConnection]:
    """With one node that is Muster's."""
    async with await KubeConnection.open(kubeconfig=plane.kubeconfig(), user_agent="muster-test/1") as connection:
        async with plane.client() as client:
            await make_fleet(client, 1, shape=NodeShape(devices=Devices.DRA), prefix="own")
        patch = taint_patch(await connection.get(NODES, NODE), wanted=True)
        assert patch is not None
        await connection.patch(NODES, NODE, patch, kind=Patch.MERGE)
        listed: JsonObject = {"data": {NODE: "gpu.nvidia.com"}}
        await connection.patch(CONFIG_MAPS, "muster-own-nodes", listed, kind=Patch.MERGE, namespace="muster")
        await connection.create(PODS, a_pod("probe", schedulerName="nobody"), namespace="default")
        async with plane.client("system:kube-scheduler") as scheduler:

            async def is_refused() -> bool:
                target: JsonObject = {"kind": "Node", "name": NODE}
                body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "probe"}, "target": target}
                path = "/api/v1/namespaces/default/pods/probe/binding?dryRun=All"
                async with scheduler.post(path, json=body) as answer:
                    return answer.status == 403

            await until_async(is_refused)  # policies take a moment to be in force
        yield connection


def pod_spec(**more: object) -> JsonObject:
    return {"containers": [{"name": "c", "image": "i"}], **more}


def a_pod(name: str, **more: object) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod_spec(**more)}


def daemon_set(name: str, *tolerations: JsonObject) -> JsonObject:
    labels: JsonObject = {"app": name}
    template: JsonObject = {"metadata": {"labels": labels}, "spec": pod_spec(tolerations=list(tolerations))}
    spec: JsonObject = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec}


async def says(kube: KubeConnection, namespace: str, name: str, words: str) -> bool:
    """Whether the pod's condition or an event about it says so."""
    pod = await kube.get(PODS, name, namespace=namespace)
    conditions = [text(one, "message") for one in objects(pod, "status", "conditions")]
    events = await kube.get_path(f"/api/v1/namespaces/{namespace}/events")
    about = [text(one, "message") for one in objects(events, "items") if text(one, "involvedObject", "name") == name]
    return any(words in said for said in (*conditions, *about))


async def runs_at(kube: KubeConnection, namespace: str, labels: str) -> str:
    """The node at which the pod of these labels runs; "" while there is none."""
    pods = (await kube.list_page(PODS, select=Selection(namespace, labels=labels))).items
    running = [text(pod, "spec", "nodeName") for pod in pods if text(pod, "status", "phase") == "Running"]
    return running[0] if running else ""


@pytest.mark.asyncio(loop_scope="module")
async def test_a_pod_that_does_not_tolerate_the_taint_waits(kube: KubeConnection) -> None:
    await kube.create(PODS, a_pod("plain"), namespace="default")

    async def is_told() -> bool:
        return await says(kube, "default", "plain", "untolerated taint")

    await until_async(is_told)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_pod_that_tolerates_everything_is_refused_at_its_binding(kube: KubeConnection) -> None:
    await kube.create(PODS, a_pod("bold", tolerations=[EVERYTHING]), namespace="default")

    async def is_told() -> bool:
        return await says(kube, "default", "bold", "is scheduled by Muster alone")

    await until_async(is_told)
    assert text(await kube.get(PODS, "bold", namespace="default"), "spec", "nodeName") == ""


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("toleration", [EVERYTHING, {"key": "muster.dev/own", "operator": "Exists"}])
async def test_daemon_sets_of_the_system_run_there(kube: KubeConnection, toleration: JsonObject) -> None:
    name = "driver" if "key" in toleration else "proxy"
    await kube.create(DAEMON_SETS, daemon_set(name, toleration), namespace="kube-system")

    async def runs() -> bool:
        return await runs_at(kube, "kube-system", f"app={name}") == NODE

    await until_async(runs)


@pytest.mark.asyncio(loop_scope="module")
async def test_kube_scheduler_cannot_give_our_devices_to_a_claim(kube: KubeConnection) -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    claim: JsonObject = {"metadata": {"name": "theirs"}, "spec": {"devices": {"requests": [request]}}}
    await kube.create(RESOURCE_CLAIMS, claim, namespace="default")
    claims = [{"name": "gpu", "resourceClaimName": "theirs"}]
    await kube.create(PODS, a_pod("claims", tolerations=[EVERYTHING], resourceClaims=claims), namespace="default")

    async def is_told() -> bool:
        return await says(kube, "default", "claims", "is given by Muster alone")

    await until_async(is_told)
    assert objects(await kube.get(RESOURCE_CLAIMS, "theirs", namespace="default"), "status", "reservedFor") == []
