"""The environment of the demonstrations: a local control plane in a temporary directory, and a guard's observer."""

import asyncio
import base64
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

import aiohttp

from muster.bus.clock import SystemTime
from muster.guard.core.checks import CHECKS, Finding
from muster.guard.core.config import GuardConfig, Subjects
from muster.guard.core.look import Look
from muster.guard.observer import ClusterObserver
from muster.guard.replicas import Place
from muster_tools.demo.guard.limits import POLL_S, SECRET_BYTES, SECRETS, SEEN_S_MAX, WRITES
from muster_tools.local_kubernetes.options import PlaneOptions
from muster_tools.local_kubernetes.plane import ControlPlane, control_plane
from muster_tools.local_kubernetes.ports import LOOPBACK

READERS = "muster:readers"
"""The group that may list secrets."""
NAMESPACE = "default"


async def let_read(plane: ControlPlane, *, group: str = READERS) -> None:
    """Allow a group to read secrets and pods everywhere. Raises aiohttp.ClientError."""
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
    """Create this many secrets of random bytes. Raises aiohttp.ClientError."""
    body = base64.b64encode(os.urandom(size_bytes)).decode()
    objects = ({"metadata": {"name": f"bulk-{number:04}"}, "data": {"blob": body}} for number in range(secrets))
    async with plane.client() as client:
        await create(client, f"/api/v1/namespaces/{NAMESPACE}/secrets", objects)


async def create(client: aiohttp.ClientSession, path: str, objects: Iterable[object]) -> None:
    """POST each object, several concurrently. Raises aiohttp.ClientError."""
    room = asyncio.Semaphore(WRITES)

    async def one(body: object) -> None:
        async with room, client.post(path, json=body) as answer:
            answer.raise_for_status()

    async with asyncio.TaskGroup() as tasks:
        for body in objects:
            tasks.create_task(one(body))


READER = "reader"
"""An ordinary user who may list secrets; flow control exempts the admin."""
CONFIG = GuardConfig(
    subjects=Subjects.EVERYBODY, memory_floor_mib=200.0, skew_floor_mib=64.0, skew_ratio=1.5, secrets_per_workload=50
)
"""Thresholds for the size of a demonstration; production's thresholds are settings."""
USERS = ((READER, (READERS,)),)


@asynccontextmanager
async def stage(options: PlaneOptions) -> AsyncIterator[ControlPlane]:
    """Run a control plane. Raises what `control_plane` raises."""
    with tempfile.TemporaryDirectory(prefix="muster-guard-demo-") as folder:
        async with control_plane(Path(folder), options) as plane:
            yield plane


@asynccontextmanager
async def observing(
    plane: ControlPlane, config: GuardConfig = CONFIG, *, audit_port: int = 0, audit_token: Path | None = None
) -> AsyncIterator[ClusterObserver]:
    """Run a guard without a stack: it observes, and applies changes where requested."""
    place = Place(
        plane.kubeconfig(),
        api_servers=plane.servers,
        audit_host=LOOPBACK,
        audit_port=audit_port,
        audit_token=audit_token,
    )
    async with ClusterObserver(place, config, version=version("gpumuster"), now=SystemTime().wall) as observer:
        yield observer


async def seen(observer: ClusterObserver, wanted: Callable[[Look], bool]) -> Look:
    """Return the first observation that fulfills the condition, or the last one within SEEN_S_MAX."""
    end_s = asyncio.get_running_loop().time() + SEEN_S_MAX
    while True:
        look = await observer.look()
        if wanted(look) or asyncio.get_running_loop().time() > end_s:
            return look
        await asyncio.sleep(POLL_S)


def said(look: Look, code: str, config: GuardConfig = CONFIG) -> str:
    """Return the guard's advice for an observation under this code; "" for none."""
    found: list[Finding] = [one for one in CHECKS[code](look, config) or () if one.degree >= 1]
    return f"{found[0].advice.detail}; {found[0].advice.cure}" if found else ""
