"""What a demonstration's control plane holds: secrets, and who may list them."""

import asyncio
import base64
import os
from collections.abc import Iterable

import aiohttp

from muster_tools.demo.guard.limits import SECRET_BYTES, SECRETS, WRITES
from muster_tools.local_kubernetes.plane import ControlPlane

READERS = "muster:readers"
"""The group that may list secrets."""
NAMESPACE = "default"


async def let_read(plane: ControlPlane, *, group: str = READERS) -> None:
    """Let a group read secrets and pods everywhere. Raises aiohttp.ClientError."""
    rules = [{"apiGroups": [""], "resources": ["secrets", "pods", "configmaps"], "verbs": ["get", "list", "watch"]}]
    role = {"metadata": {"name": "muster-readers"}, "rules": rules}
    binding = {
        "metadata": {"name": "muster-readers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "muster-readers"},
        "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": group}],
    }
    base = "/apis/rbac.authorization.k8s.io/v1"
    async with plane.client() as client:
        await create(client, f"{base}/clusterroles", [role])
        await create(client, f"{base}/clusterrolebindings", [binding])


async def fill(plane: ControlPlane, *, secrets: int = SECRETS, size_bytes: int = SECRET_BYTES) -> None:
    """Make so many secrets of random bytes. Raises aiohttp.ClientError."""
    body = base64.b64encode(os.urandom(size_bytes)).decode()
    objects = ({"metadata": {"name": f"bulk-{number:04}"}, "data": {"blob": body}} for number in range(secrets))
    async with plane.client() as client:
        await create(client, f"/api/v1/namespaces/{NAMESPACE}/secrets", objects)


async def create(client: aiohttp.ClientSession, path: str, objects: Iterable[object]) -> None:
    """POST each, some at a time. Raises aiohttp.ClientError."""
    room = asyncio.Semaphore(WRITES)

    async def one(body: object) -> None:
        async with room, client.post(path, json=body) as answer:
            answer.raise_for_status()

    async with asyncio.TaskGroup() as tasks:
        for body in objects:
            tasks.create_task(one(body))
