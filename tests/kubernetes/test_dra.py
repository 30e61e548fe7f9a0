"""Devices that Muster chooses, on a real API server: claims by the rules, races, and what others may not do."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import aiohttp
import pytest

from kit.kube.allocating import CLOCK, Choosing, choosing
from kit.kube.manifests import K8S, kubectl
from kit.kube.planes import ORDINARY, AnyPlane
from kit.waiting import until, until_async
from muster.agent.core.cluster import CreatePods
from muster.agent.core.kubernetes.options import PodPolicy
from muster.cli.kubernetes_commands import rbac_yaml
from muster.core import Instant
from muster.kube.connection import KubeConnection
from muster.kube.errors import NotFoundError
from muster.kube.objects import JsonObject, at, objects, sequence, strings, text
from muster.kube.rbac import OF_FABRICS, Scope, account_of
from muster.kube.resources import CONFIG_MAPS, NAMESPACES, NODES, PODS, RESOURCE_CLAIMS
from muster.kube.shapes import Patch
from muster.schemas.job import Slot, TaskGroup
from muster_tools.local_kubernetes.fleet import make_fleet
from muster_tools.local_kubernetes.nodes import Devices, NodeShape
from unit.agent.pods.orders import spec

_NUMBERS = itertools.count()
AGENT = f"system:serviceaccount:muster:{account_of('agent')}"
JOB = "ABCDEFGHIJKLMNOPQRSTUVWX"


@pytest.fixture(scope="module")
def own(plane: AnyPlane) -> Iterator[None]:
    """Muster's namespaces, rights, device class and policies."""
    rights = rbac_yaml(Scope(without=OF_FABRICS))  # in every namespace: each test has one of its own
    kubectl(plane, "apply", "--server-side", "-f", str(K8S / "base" / "namespaces.yaml"))
    kubectl(plane, "apply", "--server-side", "-f", "-", given=rights)
    kubectl(plane, "apply", "--server-side", "-k", str(K8S / "base" / "dra"))
    yield
    kubectl(plane, "delete", "--ignore-not-found", "-k", str(K8S / "base" / "dra"))
    kubectl(plane, "delete", "--ignore-not-found", "-f", "-", given=rights)


@pytest.fixture
async def kube(plane: AnyPlane) -> AsyncIterator[KubeConnection]:
    async with await KubeConnection.open(kubeconfig=plane.kubeconfig(), user_agent="muster-test/1") as connection:
        yield connection


@pytest.fixture
async def node(plane: AnyPlane) -> AsyncIterator[str]:
    """A node of its own, with eight devices."""
    prefix = f"dra{next(_NUMBERS)}"
    async with plane.client() as client:
        fleet = await make_fleet(client, 1, shape=NodeShape(devices=Devices.DRA), prefix=prefix)
        yield fleet.names[0]
        for path in (
            f"/api/v1/nodes/{fleet.names[0]}",
            f"/apis/resource.k8s.io/v1/resourceslices/00000-gpu.nvidia.com-{fleet.names[0]}",
        ):
            async with client.delete(path) as answer:
                assert answer.ok


@pytest.fixture
async def space(kube: KubeConnection) -> AsyncIterator[str]:
    name = f"dra-{next(_NUMBERS)}"
    await kube.create(NAMESPACES, {"metadata": {"name": name}})
    yield name
    await kube.delete(NAMESPACES, name)


def policy(space: str) -> PodPolicy:
    return PodPolicy(cluster="atlas", namespace=space, image="registry.example/train:1")


def order(node: str, *devices: int, job: str = f"{JOB}AA") -> CreatePods:
    slot = Slot(group=0, replica=0, node=node, devices=devices, gpu_milli=1000)
    return CreatePods(job, 0, Instant(0), (slot,), spec(TaskGroup(gpus=len(devices))))


async def claims(kube: KubeConnection, space: str) -> list[JsonObject]:
    page = await kube.list_page(RESOURCE_CLAIMS)
    return [one for one in page.items if text(one, "metadata", "namespace") == space]


def given(claim: JsonObject) -> list[str]:
    return [text(one, "device") for one in objects(claim, "status", "allocation", "devices", "results")]


async def prepared(agent: Choosing, wanted: CreatePods) -> tuple[str, str]:
    """A pod whose claim is on its way."""
    name, uid = await agent.pod(wanted)
    agent.prepare(wanted, 0, name=name, uid=uid)
    return name, uid


@pytest.mark.usefixtures("own")
async def test_a_pod_gets_exactly_the_devices_that_were_chosen(kube: KubeConnection, space: str, node: str) -> None:
    async with choosing(kube, policy(space)) as agent:
        wanted = order(node, 2, 5)
        name, uid = await prepared(agent, wanted)
        await until(lambda: agent.ready or agent.refused)
        assert agent.refused == {}
        await agent.bind(wanted, name=name, uid=uid)

        async def runs() -> bool:
            return text(await kube.get(PODS, name, namespace=space), "status", "phase") == "Running"

        await until_async(runs)
        (claim,) = await claims(kube, space)
        assert given(claim) == ["gpu-2", "gpu-5"]
        assert sequence(claim, "metadata", "finalizers") == ["resource.kubernetes.io/delete-protection"]
        assert [one["uid"] for one in objects(claim, "status", "reservedFor")] == [uid]
        await kube.delete(PODS, name, namespace=space, grace_s=0)
        agent.chosen.release(wanted, wanted.slots[0], Instant(0))

        async def is_gone() -> bool:
            return await claims(kube, space) == []

        await until_async(is_gone)
        assert agent.worklist.take(Instant(0)) is None


@pytest.mark.usefixtures("own")
async def test_of_two_who_allocate_one_device_at_most_one_may_bind(kube: KubeConnection, space: str, node: str) -> None:
    async with AsyncExitStack() as stack:
        agents = [await stack.enter_async_context(choosing(kube, policy(space))) for _ in range(2)]
        for number in range(8):
            for agent in agents:
                agent.ready.clear()
                agent.refused.clear()
            letters = "ABCDEFGH"[number]
            wanted = [order(node, number, job=f"{JOB}{who}{letters}") for who in "AB"]
            await asyncio.gather(*(prepared(agent, one) for agent, one in zip(agents, wanted, strict=True)))
            await until(lambda: all(agent.ready or agent.refused for agent in agents))
            ready = [bool(agent.ready) for agent in agents]
            assert sum(ready) <= 1
            for agent, one in zip(agents, wanted, strict=True):
                agent.chosen.release(one, one.slots[0], Instant(0))

            async def is_gone() -> bool:
                return await claims(kube, space) == []

            await until_async(is_gone)


@pytest.mark.usefixtures("own")
async def test_nodes_with_devices_become_musters_alone(kube: KubeConnection, space: str, node: str) -> None:
    async with choosing(kube, policy(space), own_nodes=True) as agent:

        async def is_listed() -> bool:
            agent.chosen.settle(CLOCK.wall())  # as the agent's part does every second
            return node in strings(await kube.get(CONFIG_MAPS, "muster-own-nodes", namespace="muster"), "data")

        await until_async(is_listed)
        taints = objects(await kube.get(NODES, node), "spec", "taints")
        assert {"key": "muster.dev/own", "effect": "NoSchedule"} in taints


async def owned(kube: KubeConnection, node: str) -> None:
    """The policies know the node."""
    body: JsonObject = {"data": {node: "gpu.nvidia.com"}}
    await kube.patch(CONFIG_MAPS, "muster-own-nodes", body, kind=Patch.MERGE, namespace="muster")


def client_of(plane: AnyPlane, user: str, *groups: str) -> aiohttp.ClientSession:
    """A session of the admin, who plays this user."""
    session = plane.client()
    session.headers["Impersonate-User"] = user
    for group in (*groups, "system:authenticated"):
        session.headers.add("Impersonate-Group", group)
    return session


@pytest.fixture
async def ordinary(plane: AnyPlane, own: None, kube: KubeConnection) -> AsyncIterator[aiohttp.ClientSession]:
    """Someone who may make, bind and allocate as far as roles are concerned."""
    rules = [
        "--verb=create,get,update,patch", "--resource=pods,pods/binding,pods/status",
    ]  # fmt: skip
    kubectl(plane, "create", "clusterrole", "ordinary-binds", *rules)
    kubectl(
        plane, "create", "clusterrole", "ordinary-claims", "--verb=create,get,update,patch",
        "--resource=resourceclaims.resource.k8s.io,resourceclaims.resource.k8s.io/status",
    )  # fmt: skip
    for role in ("ordinary-binds", "ordinary-claims"):
        kubectl(plane, "create", "clusterrolebinding", role, f"--clusterrole={role}", f"--user={ORDINARY}")
    async with client_of(plane, ORDINARY) as client:
        yield client
    for role in ("ordinary-binds", "ordinary-claims"):
        kubectl(plane, "delete", "clusterrolebinding,clusterrole", role)


def a_pod(space: str, name: str, **more: object) -> JsonObject:
    spec: JsonObject = {"schedulerName": "by-hand", "containers": [{"name": "c", "image": "i"}], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": space}, "spec": spec}


async def bound(client: aiohttp.ClientSession, space: str, pod: str, node: str) -> tuple[int, str]:
    """What the API server says to a binding."""
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
    async with client.post(f"/api/v1/namespaces/{space}/pods/{pod}/binding", json=body) as answer:
        return answer.status, await answer.text()


async def allocated(client: aiohttp.ClientSession, space: str, claim: str, node: str, device: str) -> tuple[int, str]:
    """What it says to an allocation."""
    path = f"/apis/resource.k8s.io/v1/namespaces/{space}/resourceclaims"
    request = {"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    body = {"metadata": {"name": claim}, "spec": {"devices": {"requests": [request]}}}
    async with client.post(path, json=body) as answer:
        made = await answer.json()
        if answer.status == 409:
            async with client.get(f"{path}/{claim}") as again:
                made = await again.json()
    result = {"request": "r", "driver": "gpu.nvidia.com", "pool": node, "device": device}
    made["status"] = {"allocation": {"devices": {"results": [result]}}}
    async with client.put(f"{path}/{claim}/status", json=made) as answer:
        return answer.status, await answer.text()


async def test_others_may_not_allocate_devices_of_our_nodes(
    plane: AnyPlane, kube: KubeConnection, ordinary: aiohttp.ClientSession, space: str, node: str
) -> None:
    await owned(kube, node)
    async with client_of(plane, AGENT, "system:serviceaccounts") as agent:

        async def is_refused() -> bool:
            return (await allocated(ordinary, space, "theirs", node, "gpu-0"))[0] == 403

        await until_async(is_refused)  # policies take a moment to be in force
        status, words = await allocated(ordinary, space, "theirs", node, "gpu-1")
        assert (status, "is given by Muster alone" in words) == (403, True)
        assert (await allocated(ordinary, space, "elsewhere", "other-node", "gpu-1"))[0] == 200
        assert (await allocated(agent, space, "ours", node, "gpu-1"))[0] == 200


async def test_others_may_take_an_allocation_back_and_tell_how_devices_are(
    plane: AnyPlane, kube: KubeConnection, ordinary: aiohttp.ClientSession, space: str, node: str
) -> None:
    await owned(kube, node)
    path = f"/apis/resource.k8s.io/v1/namespaces/{space}/resourceclaims/ours/status"
    async with client_of(plane, AGENT, "system:serviceaccounts") as agent:
        assert (await allocated(agent, space, "ours", node, "gpu-1"))[0] == 200
    telling = {"status": {"devices": [{"driver": "gpu.nvidia.com", "pool": node, "device": "gpu-1", "data": {"a": 1}}]}}
    merge = {"Content-Type": "application/merge-patch+json"}
    async with ordinary.patch(path, json=telling, headers=merge) as answer:
        assert answer.status == 200, await answer.text()
    async with ordinary.patch(path, json={"status": {"allocation": None, "devices": None}}, headers=merge) as answer:
        assert answer.status == 200, await answer.text()


async def test_others_may_not_bind_pods_to_our_nodes(
    plane: AnyPlane, kube: KubeConnection, ordinary: aiohttp.ClientSession, space: str, node: str
) -> None:
    await owned(kube, node)
    pods = (f"try-{number}" for number in itertools.count())

    async def tried(client: aiohttp.ClientSession, where: str) -> tuple[int, str]:
        name = next(pods)
        await kube.create(PODS, a_pod(where, name), namespace=where)
        return await bound(client, where, name, node)

    async def is_refused() -> bool:
        return (await tried(ordinary, space))[0] == 403

    await until_async(is_refused)
    status, words = await tried(ordinary, space)
    assert (status, "is scheduled by Muster alone" in words) == (403, True)
    async with client_of(plane, AGENT, "system:serviceaccounts") as agent:
        assert (await tried(agent, space))[0] == 201
    assert (await tried(ordinary, "kube-system"))[0] == 201, "what every node needs comes from there"


async def test_others_may_not_name_our_nodes_in_their_pods(
    plane: AnyPlane, kube: KubeConnection, ordinary: aiohttp.ClientSession, space: str, node: str
) -> None:
    await owned(kube, node)
    names = (f"named-{number}" for number in itertools.count())

    async def tried(client: aiohttp.ClientSession, where: str) -> int:
        name = next(names)
        async with client.post(f"/api/v1/namespaces/{where}/pods", json=a_pod(where, name, nodeName=node)) as answer:
            return answer.status

    async def is_refused() -> bool:
        return await tried(ordinary, space) == 403

    await until_async(is_refused)
    assert await tried(ordinary, "kube-system") == 201
    await kube.patch(NAMESPACES, space, {"metadata": {"labels": {"muster.dev/shares-nodes": ""}}}, kind=Patch.MERGE)

    async def is_let_through() -> bool:
        return await tried(ordinary, space) == 201

    await until_async(is_let_through)


async def test_the_device_class_takes_whole_gpus_of_the_driver(
    plane: AnyPlane, kube: KubeConnection, own: None
) -> None:
    page = await kube.get_path("/apis/resource.k8s.io/v1/deviceclasses/gpu.muster.dev")
    (selector,) = objects(page, "spec", "selectors")
    assert "type == 'gpu'" in text(selector, "cel", "expression")
    with pytest.raises(NotFoundError):
        await kube.get_path("/apis/resource.k8s.io/v1/deviceclasses/another")
    assert at(page, "spec", "config") is None
