"""A workload with its credentials in many secrets: the kubelet of each pod lists and watches each secret by name.

A local control plane has no kubelets, so this demonstration sends their requests, as kubelets of Kubernetes 1.32 and
newer do (secret manager, change detection strategy Watch).
"""

import asyncio
from collections.abc import Sequence

import aiohttp

from muster.guard.core.checks import SECRETS
from muster.guard.core.look import Look
from muster_tools.demo.guard.limits import WORKLOAD_NODES, WORKLOAD_PODS, WORKLOAD_SECRETS, WRITES
from muster_tools.demo.guard.result import Measure, Story
from muster_tools.demo.guard.stage import NAMESPACE, READER, USERS, create, let_read, observing, said, seen, stage
from muster_tools.local_kubernetes.options import PlaneOptions
from muster_tools.local_kubernetes.plane import ControlPlane

_SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "trainer", "uid": "0", "controller": True}
_WATCH_S = 20


async def credentials() -> Story:
    """Compare one secret per credential with one secret that has a key per credential."""
    before, lists_before, watches_before = await _run(WORKLOAD_SECRETS)
    after, lists_after, watches_after = await _run(1)
    return Story(
        name="secrets",
        title=f"A workload of {WORKLOAD_PODS} pods on {WORKLOAD_NODES} nodes with {WORKLOAD_SECRETS} credentials",
        before=f"{WORKLOAD_SECRETS} secrets",
        after="one secret with all of them as keys",
        measures=(
            Measure("secrets", "secrets", WORKLOAD_SECRETS, 1),
            Measure("lists", "LISTs that its kubelets sent", lists_before, lists_after),
            Measure("watches", "watches that they keep open", watches_before, watches_after),
        ),
        advice=said(before, SECRETS),
        advice_after=said(after, SECRETS),
    )


async def _run(secrets: int) -> tuple[Look, float, float]:
    """Return the guard's observation, LISTs by name, and watches of single secrets, from the API server's metrics."""
    names = [f"credential-{number:03}" for number in range(secrets)]
    async with stage(PlaneOptions(kwok=False, users=USERS)) as plane, observing(plane) as observer:
        await let_read(plane)
        async with plane.client() as client:
            await create(client, _SECRETS, (_secret(name, WORKLOAD_SECRETS // secrets) for name in names))
            await create(client, _PODS, (_pod(number, names) for number in range(WORKLOAD_PODS)))
        before = _lists(await observer.look())
        async with plane.client(READER, connections=0) as client:
            watching = await _kubelets(client, names)
            look = await seen(observer, lambda look: look.pods is not None and look.pods.pods == WORKLOAD_PODS)
            watches = await _watches(plane)
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
        return look, _lists(look) - before, watches


async def _kubelets(client: aiohttp.ClientSession, names: Sequence[str]) -> list[asyncio.Task[None]]:
    """Send for each node and each secret a LIST by name, then open a watch."""
    room = asyncio.Semaphore(WRITES)
    tasks: list[asyncio.Task[None]] = []

    async def one(name: str) -> None:
        query = {"fieldSelector": f"metadata.name={name}"}
        async with room, client.get(_SECRETS, params=query) as answer:
            answer.raise_for_status()
            version = (await answer.json())["metadata"]["resourceVersion"]
        query |= {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(_WATCH_S)}
        begun = asyncio.Event()
        tasks.append(asyncio.create_task(_watch(client, query, begun)))
        await begun.wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(WORKLOAD_NODES):
            for name in names:
                group.create_task(one(name))
    return tasks


async def _watch(client: aiohttp.ClientSession, query: dict[str, str], begun: asyncio.Event) -> None:
    try:
        async with client.get(_SECRETS, params=query) as answer:
            begun.set()
            await answer.read()
    finally:
        begun.set()


async def _watches(plane: ControlPlane) -> float:
    """Return the number of open watches of single secrets."""
    wanted = 'resource="secrets",scope="resource"'
    async with plane.client() as client, client.get("/metrics") as answer:
        rows = (await answer.text()).splitlines()
    found = (row for row in rows if row.startswith("apiserver_longrunning_requests{") and wanted in row)
    return sum(float(row.rsplit(" ", 1)[1]) for row in found if 'verb="WATCH"' in row)


def _lists(look: Look) -> float:
    return sum(replica.page.lists.get("secrets", 0.0) for replica in look.up if replica.page)


def _secret(name: str, keys: int) -> dict[str, object]:
    return {"metadata": {"name": name}, "stringData": {f"key-{number}": "token" for number in range(keys)}}


def _pod(number: int, names: Sequence[str]) -> dict[str, object]:
    return {
        "metadata": {"name": f"trainer-{number}", "ownerReferences": [_OWNER]},
        "spec": {
            "nodeName": f"node-{number % WORKLOAD_NODES}",
            "containers": [{"name": "main", "image": "none"}],
            "volumes": [{"name": name, "secret": {"secretName": name}} for name in names],
        },
    }
